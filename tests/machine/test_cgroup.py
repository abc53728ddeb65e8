"""Limits of control groups, versions 1 and 2, read from copies of the kernel's files."""

from pathlib import Path

import pytest

from hpml.machine import cgroup


@pytest.fixture
def kernel(tmp_path: Path):
    """`kernel(membership, {path: text})` writes the files and returns what both functions do."""

    def limits(membership: str, files: dict[str, str]):
        (tmp_path / "membership").write_text(membership)
        (tmp_path / "mount").mkdir(exist_ok=True)
        for name, text in files.items():
            path = tmp_path / "mount" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        where = (tmp_path / "mount", tmp_path / "membership")
        return cgroup.memory_limit(*where), cgroup.cpu_limit(*where)

    return limits


def test_version_2_has_its_limits(kernel):
    files = {"job/memory.max": "1073741824\n", "job/cpu.max": "150000 100000\n"}
    assert kernel("0::/job\n", files) == (2**30, 1.5)


def test_the_tightest_limit_on_the_way_up_holds(kernel):
    files = {
        "a/memory.max": "100\n",
        "a/b/memory.max": "max\n",
        "a/b/c/memory.max": "200\n",
        "a/cpu.max": "max 100000\n",
        "a/b/cpu.max": "400000 100000\n",
        "a/b/c/cpu.max": "800000 100000\n",
    }
    assert kernel("0::/a/b/c\n", files) == (100, 4.0)


def test_version_1_has_its_limits(kernel):
    files = {
        "memory/job/memory.limit_in_bytes": "5000\n",
        "cpu,cpuacct/job/cpu.cfs_quota_us": "50000\n",
        "cpu,cpuacct/job/cpu.cfs_period_us": "100000\n",
    }
    assert kernel("4:memory:/job\n2:cpu,cpuacct:/job\n", files) == (5000, 0.5)


def test_in_a_container_the_path_is_the_hosts_and_the_limit_at_the_top(kernel):
    assert kernel("0::/docker/0123\n", {"memory.max": "7\n"}) == (7, None)


def test_no_limit_is_none(kernel):
    files = {
        "memory/memory.limit_in_bytes": "9223372036854771712\n",
        "cpu/cpu.cfs_quota_us": "-1\n",
        "cpu/cpu.cfs_period_us": "100000\n",
        "cpu.max": "max 100000\n",
        "memory.max": "max\n",
    }
    assert kernel("2:cpu:/\n4:memory:/\n0::/\n", files) == (None, None)


def test_no_control_groups_is_no_limit(tmp_path):
    assert cgroup.memory_limit(tmp_path, tmp_path / "none") is None
    assert cgroup.cpu_limit(tmp_path, tmp_path / "none") is None
