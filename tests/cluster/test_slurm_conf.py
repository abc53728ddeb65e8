import re
from pathlib import Path

from hpml.cluster.shape import Shape
from hpml.cluster.slurm_conf import cgroup_conf, gres_conf, slurm_conf
from hpml.cluster.subnet import Subnet

CONF = slurm_conf(Path("/p/cluster"), Shape(3, 16), Subnet("10.1.2.0/24"), 32768)


def setting(name: str) -> str:
    (value,) = re.findall(rf"(?m)^{name}=(.+)$", CONF)
    return value


def test_every_node_has_its_address_and_is_in_the_partition():
    for number in (1, 2, 3):
        line = f"NodeName=n{number} NodeHostname=n{number} NodeAddr=10.1.2.{number} State=UNKNOWN"
        assert line in CONF.splitlines()
    assert " Nodes=n[1-3] Default=YES " in CONF


def test_nodes_have_the_cpus_that_were_asked_for_whatever_the_machine_has():
    assert "CPUs=16 " in CONF
    assert "CoresPerSocket=16 " in CONF
    assert CONF.splitlines().count("SlurmdParameters=config_overrides") == 1
    assert setting("DefMemPerCPU") == "2048"


def test_gpus_are_declared_each_with_a_file_or_not_at_all():
    shape = Shape(3, 16, gpus=2)
    conf = slurm_conf(Path("/p/cluster"), shape, Subnet("10.1.2.0/24"), 32768)
    assert "GresTypes=gpu\nNodeName=DEFAULT " in conf
    assert " RealMemory=32768 Gres=gpu:2\n" in conf
    assert gres_conf(shape) == "Name=gpu File=/tmp/gpu0\nName=gpu File=/tmp/gpu1\n"
    assert "gpu" not in CONF
    assert gres_conf(Shape(3, 16)) == ""


def test_tasks_are_bound_only_where_they_are_asked_to_be():
    assert setting("TaskPlugin") == "task/affinity"
    assert setting("TaskPluginParam") == "none"


def test_nothing_is_the_machines_own():
    assert setting("AuthInfo").startswith("socket=/p/cluster/munge/socket,")
    assert setting("SlurmctldHost") == "head(10.1.2.253)"
    paths = re.findall(r"=(/[^,\s]+)", CONF)
    assert [path for path in paths if not path.startswith(("/p/cluster/", "/tmp/slurmd"))] == []


def test_slurmd_is_kept_from_control_groups_in_the_words_of_its_version():
    assert cgroup_conf((22, 5, 8)) == "CgroupPlugin=cgroup/v1\n"
    assert cgroup_conf((23, 11, 4)) == "CgroupPlugin=disabled\n"
