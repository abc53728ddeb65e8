import pytest

from hpml.cluster.shape import MIB_PER_CPU, Shape
from hpml.errors import UserError

GIB = 2**30


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"nodes": 0}, r"--nodes 0: give a number from 1 to 64"),
        ({"nodes": 65}, r"--nodes 65: give a number from 1 to 64"),
        ({"cpus": 0}, r"--cpus 0: give a number from 1 to 256"),
        ({"gpus": -1}, r"--gpus -1: give a number from 0 to 16"),
        ({"gpus": 17}, r"--gpus 17: give a number from 0 to 16"),
        ({"link": "0"}, r"link '0' .* as in 100mbit or 1gbit$"),
        ({"link": "1gbps"}, r"link '1gbps' .*bytes per second"),
        ({"link": "-1gbit"}, r"link '-1gbit' .* as in 100mbit or 1gbit$"),
        ({"link": "nodes=2x2,intra=1gbit,inter=1gbit"}, r"all nodes have the same rate"),
    ],
)
def test_what_no_cluster_can_be_is_refused_in_one_line(wrong, message):
    with pytest.raises(UserError, match=message) as refused:
        Shape(**wrong).check()
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("nodes", [1, 64])
def test_the_largest_and_the_smallest_are_allowed(nodes):
    Shape(nodes, 256, "32gbit").check()


def test_gpus_are_named_where_there_are_some_and_as_what_they_are():
    assert str(Shape(2, 4)) == "2 nodes, 4 CPUs each, links of 1gbit"
    assert str(Shape(2, 4, gpus=1)) == (
        "2 nodes, 4 CPUs and 1 make-believe GPU each, links of 1gbit"
    )
    assert Shape(2, 4, gpus=3).options().endswith(" --gpus 3")
    assert "gpus" not in Shape(2, 4).options()


def test_names_and_their_abbreviation_agree():
    assert Shape(1).names == ("n1",)
    assert Shape(1).host_list == "n1"
    assert Shape(3).names == ("n1", "n2", "n3")
    assert Shape(3).host_list == "n[1-3]"


def test_memory_is_a_share_of_the_machine_but_enough_for_the_jobs():
    assert Shape(4, 2).memory(64 * GIB) == 16 * 1024
    assert Shape(8, 2).memory(8 * GIB) == 2 * MIB_PER_CPU
