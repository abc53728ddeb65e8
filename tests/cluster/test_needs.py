import os
import sys

import pytest

from hpml.cluster import lifecycle, needs
from hpml.cluster.folder import folder
from hpml.cluster.shape import Shape
from hpml.errors import UserError


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("HPML_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("SLURM_CONF", raising=False)


@pytest.fixture
def programs(tmp_path, monkeypatch):
    """`programs(name=script)`: these shell scripts, and nothing else, are to be found."""

    def only(**scripts: str) -> None:
        for name, script in scripts.items():
            (tmp_path / name).write_text(f"#!/bin/sh\n{script}\n")
            (tmp_path / name).chmod(0o755)
        monkeypatch.setenv("PATH", str(tmp_path))
        monkeypatch.setattr(needs, "_SYSTEM", ())

    return only


@pytest.fixture
def ordinary_user(monkeypatch):
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    monkeypatch.setattr(sys, "argv", ["hpml", "cluster", "up", "--nodes", "3"])


def test_missing_programs_are_named_with_their_packages(programs):
    programs(nsenter="", unshare="", sbatch="", slurmctld="")
    with pytest.raises(UserError) as refused:
        needs.need_programs()
    message = "slurmd, munged not found: as root, apt install munge slurm-wlm (Debian)"
    assert str(refused.value) == message


def test_without_root_the_command_to_use_is_named(programs, ordinary_user):
    programs(**dict.fromkeys(needs.PACKAGES, ""))
    with pytest.raises(UserError) as refused:
        lifecycle.up(Shape(nodes=3))
    home = os.environ["HPML_HOME"]
    command = f"sudo env HPML_HOME={home} {sys.executable} -m hpml cluster up --nodes 3"
    assert str(refused.value).endswith(f" takes root: {command}")
    assert not folder().path.exists()


def test_a_cluster_of_roots_is_not_ended_by_another(ordinary_user):
    folder().path.mkdir()
    with pytest.raises(UserError, match="takes root: sudo "):
        lifecycle.down()
    assert folder().path.exists()


def test_a_root_that_may_not_make_namespaces_is_refused(programs):
    programs(unshare="echo unshare: Operation not permitted >&2; exit 1")
    with pytest.raises(UserError, match=r"Operation not permitted.*docker run --privileged"):
        needs.need_namespaces()


def test_a_machine_with_its_own_slurm_is_asked_for_its_name(programs):
    programs(scontrol="printf 'AccountingStorage = none\\nClusterName   = snellius\\n'")
    assert needs.other_slurm() == "snellius"
    programs(scontrol="exit 1")
    assert needs.other_slurm() is None


def test_our_own_cluster_is_not_taken_for_the_machines(programs, monkeypatch):
    programs(scontrol='[ "$SLURM_CONF" ] && echo ClusterName = hpml')
    monkeypatch.setenv("SLURM_CONF", str(folder().slurm_conf))
    assert needs.other_slurm() is None
    monkeypatch.setenv("SLURM_CONF", "/etc/another.conf")
    assert needs.other_slurm() == "hpml"


def test_up_leaves_a_machine_with_its_own_slurm_alone(programs, capsys):
    from hpml.cli import main

    programs(scontrol="echo ClusterName = snellius")
    with pytest.raises(SystemExit) as ended:
        main(["cluster", "up"])
    assert ended.value.code == 0
    assert "SLURM of its own, snellius" in capsys.readouterr().out
    assert not folder().path.exists()


@pytest.mark.parametrize(
    ("printed", "version"), [("slurm-wlm 22.05.8", (22, 5, 8)), ("slurm 23.11.4", (23, 11, 4))]
)
def test_the_version_is_read_from_slurmd(programs, printed, version):
    programs(slurmd=f"echo {printed}")
    assert needs.slurm_version() == version


def test_a_slurmd_without_a_version_is_a_user_error(programs):
    programs(slurmd="echo hello")
    with pytest.raises(UserError, match="'hello'"):
        needs.slurm_version()
