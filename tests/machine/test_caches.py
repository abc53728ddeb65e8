"""Caches as /sys describes them."""

from hpml.machine.caches import Cache, caches


def describe(sysfs, index, **files):
    folder = sysfs / "cpu0" / "cache" / f"index{index}"
    folder.mkdir(parents=True)
    for name, text in files.items():
        (folder / name).write_text(text + "\n")


def test_data_caches_from_the_smallest_with_the_cores_that_share_them(tmp_path):
    describe(tmp_path, 0, level="3", type="Unified", size="32M", shared_cpu_list="0-3,8")
    describe(tmp_path, 1, level="1", type="Instruction", size="32K", shared_cpu_list="0")
    describe(tmp_path, 2, level="1", type="Data", size="48K", shared_cpu_list="0")
    found = caches(sysfs=tmp_path)
    assert found == [Cache(1, 48 << 10, 1), Cache(3, 32 << 20, 5)]
    assert [str(cache) for cache in found] == ["L1, 48 KiB", "L3, 32 MiB"]


def test_a_machine_that_does_not_name_its_caches(tmp_path):
    describe(tmp_path, 0, level="1", type="Data")
    assert caches(sysfs=tmp_path) == []
