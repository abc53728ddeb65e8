"""The picture of a machine has every box, and every rank where it runs."""

import pytest
from matplotlib.colors import to_hex

from hpml.machine.topology import Cache, Topology, made, read
from hpml.modules.m02_hardware.lecture import topology_picture
from hpml.modules.m02_hardware.lecture.topology_picture import RANKS, compare, draw, size


def words(figure) -> list[str]:
    return [text.get_text() for axes in figure.axes for text in axes.texts]


def painted(figure, number: int = 0) -> dict[str, int]:
    """How many fields have each rank's colour."""
    colours = [to_hex(patch.get_facecolor()) for patch in figure.axes[number].patches]
    return {colour: colours.count(colour) for colour in RANKS if colour in colours}


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("numa", [1, 4])
def test_every_cpu_is_drawn_once_in_its_numa_node(threads, numa):
    machine = made(2, 64, threads=threads, numa=numa, l3=2**25, l3_cores=8, memory=2**36)
    seen = words(draw(machine))
    assert sorted(int(word) for word in seen if word.isdigit()) == list(machine.cpus)
    assert [word for word in seen if word.startswith("NUMA")] == [
        f"NUMA node {node}, memory 64 GiB" for node in machine.numa_nodes
    ]
    assert seen.count("L3 32 MiB") == 16


def test_a_small_machine_shows_its_caches():
    machine = made(1, 2, threads=2)
    caches = (Cache(1, "Data", 48 * 1024, (0, 2)), Cache(2, "Unified", 2**20, (0, 2)))
    seen = words(draw(Topology(machine.cores, machine.allowed, caches)))
    assert [word for word in seen if word.startswith("L")] == ["L1 data 48 KiB", "L2 1 MiB"]
    assert sorted(word for word in seen if word.startswith("CPU")) == [
        *("CPU 0", "CPU 1", "CPU 2", "CPU 3")
    ]


def test_gpus_are_at_their_numa_node():
    assert [word for word in words(draw(made(2, 2, gpus=[1, 0, 1]))) if "GPU" in word] == [
        *("GPU 1", "GPU 0   GPU 2")
    ]


def test_each_rank_has_its_colour_where_it_runs():
    figure = draw(made(2, 4, threads=2), [(0, 8), (1, 2, 3), (4,)])
    assert painted(figure) == {RANKS[0]: 2, RANKS[1]: 3, RANKS[2]: 1}
    assert "CPU 8: rank 0" in words(figure)
    (legend,) = figure.legends
    assert [text.get_text() for text in legend.get_texts()] == ["rank 0", "rank 1", "rank 2"]


def test_a_cpu_of_two_ranks_has_both_colours():
    figure = draw(made(1, 2), [(0, 1), (1,)])
    assert painted(figure) == {RANKS[0]: 2, RANKS[1]: 1}
    assert "CPU 1: rank 0 and 1" in words(figure)


def test_more_ranks_than_colours_share_them():
    (legend,) = draw(made(1, 16), [(cpu,) for cpu in range(16)]).legends
    assert [text.get_text() for text in legend.get_texts()][:2] == ["rank 0, 8", "rank 1, 9"]


def test_what_is_kept_for_the_system_is_hatched():
    figure = draw(made(1, 4), [(0, 1)], reserved=[0, 3])
    assert len([patch for patch in figure.axes[0].patches if patch.get_hatch()]) == 2
    assert not [word for word in words(figure) if word.startswith("CPU 3")]


def test_two_placements_are_drawn_one_below_the_other():
    figure = compare(made(2, 2), {"right": [(0, 1), (2, 3)], "wrong": [(0, 2), (1, 3)]}, title="t")
    assert [axes.get_title("left") for axes in figure.axes] == ["right", "wrong"]
    assert painted(figure, 0) == painted(figure, 1) == {RANKS[0]: 2, RANKS[1]: 2}


def test_this_machine_is_drawn():
    assert topology_picture.draw(read()).axes[0].get_title("left") == read().sentence()


def test_sizes_are_those_of_caches_and_memories():
    assert [size(n) for n in (512, 48 * 1024, 2**25, 25276518400)] == [
        *("512 bytes", "48 KiB", "32 MiB", "23.5 GiB")
    ]
