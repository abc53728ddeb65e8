"""Bandwidth: what is counted, and how large arrays must be. The times are the test's own."""

from dataclasses import replace

import pytest
import torch

from hpml.machine.topology import Cache, made
from hpml.measure import bandwidth as module
from hpml.measure.bandwidth import (
    KERNELS,
    bandwidth,
    data_caches,
    memory_bytes,
    sweep,
    working_sets,
)


@pytest.fixture
def one_nanosecond_each(monkeypatch):
    """Each number of an array takes a nanosecond, and each call a second on top."""
    monkeypatch.setattr(
        module, "_seconds", lambda kernel, length, *_: 1 + 1e-9 * (length if length > 16 else 0)
    )


@pytest.mark.parametrize(
    ("kernel", "arrays"),
    [("read", 1), ("copy", 2), ("triad", 3), ("update", 3), ("in place", 2)],
)
def test_stream_counts_each_array_once_and_the_call_does_not_count(
    one_nanosecond_each, kernel, arrays
):
    # Large enough that a second for the call would be seen.
    assert bandwidth(kernel, 240 << 30) == pytest.approx(4 * arrays / 1e-9)


def test_the_working_set_is_what_all_arrays_take_together(monkeypatch):
    lengths = []
    monkeypatch.setattr(
        module, "_seconds", lambda kernel, length, *_: lengths.append(length) or 1.0 * length
    )
    sweep("triad", [12_000])
    assert max(lengths) == 1000
    sweep("update", [24_000])  # of two arrays, one of which is read and written
    assert max(lengths) == 3000


def test_kernels_do_what_their_names_say():
    a, b, c = torch.tensor([1.0, 2.0]), torch.tensor([10.0, 20.0]), torch.zeros(2)
    total = torch.zeros(())
    KERNELS["read"].run(a, b, c, total)
    assert total == 3
    KERNELS["copy"].run(a, b, c, total)
    assert c.tolist() == [1, 2]
    KERNELS["triad"].run(a, b, c, total)
    assert c.tolist() == [31, 62]
    KERNELS["update"].run(a, b, c, total)
    assert b.tolist() == [13, 26]
    KERNELS["in place"].run(a, b, c, total)
    assert (a.tolist(), b.tolist(), c.tolist()) == ([1, 2], [13, 26], [31, 62])


@pytest.fixture
def two_sockets(monkeypatch):
    """A machine with two sockets of 8 cores, with 32 MiB of L3 for each 4."""
    machine = made(2, 8, l3=32 << 20, l3_cores=4)
    monkeypatch.setattr(module.topology, "read", lambda: machine)
    monkeypatch.setattr(module, "usable_memory", lambda: 1 << 40)


def test_an_array_is_four_times_the_last_caches_of_all_cores(two_sockets, monkeypatch):
    assert memory_bytes() == 4 * 4 * 32 << 20
    monkeypatch.setattr(module, "usable_memory", lambda: 240 << 20)
    assert memory_bytes() == 10 << 20


def test_instructions_have_caches_of_their_own(two_sockets, monkeypatch):
    machine = module.topology.read()
    more = (Cache(4, "Instruction", 1 << 40, (0,)), *machine.caches)
    monkeypatch.setattr(module.topology, "read", lambda: replace(machine, caches=more))
    assert {cache.level for cache in data_caches()} == {3}


def test_working_sets_end_outside_the_last_cache(two_sockets):
    sizes = working_sets()
    assert sizes == sorted(set(sizes))
    assert sizes[-1] >= 96 << 20 > sizes[-2]


def test_it_measures_something_here():
    assert bandwidth("copy", 1 << 16, seconds=0.001) > 0
