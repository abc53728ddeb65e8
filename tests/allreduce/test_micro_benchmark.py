"""The micro-benchmark: its table's figures, and its sizes."""

from hpml.allreduce import micro_benchmark as micro


def test_a_line_has_size_time_and_both_bandwidths():
    """The third line: 4 MB in 1 ms are 4 GB/s, times 2 (4-1)/4 on the bus."""
    lines = micro.table({4: 1e-5, 4_000_000: 1e-3}, ranks=4).splitlines()
    assert lines[0].split() == ["bytes", "time", "(µs)", "algbw", "(GB/s)", "busbw", "(GB/s)"]
    assert lines[1].split() == ["4", "10.0", "0.00040", "0.00060"]
    assert lines[2].split() == ["4000000", "1000.0", "4.00000", "6.00000"]


def test_sizes_are_powers_of_four_up_to_256_megabytes(monkeypatch):
    monkeypatch.setattr(micro, "usable_memory", lambda: 64 << 30)
    assert micro.sizes()[:3] == [4, 16, 64]
    assert micro.sizes()[-1] == 1 << 28
    assert len(micro.sizes()) == 14


def test_a_small_machine_gets_no_large_sizes(monkeypatch):
    monkeypatch.setattr(micro, "usable_memory", lambda: 1 << 30)
    assert micro.sizes()[-1] == 1 << 26


def test_large_sizes_have_few_repetitions():
    assert [micro.repetitions(4 << k) for k in (0, 22, 26)] == [20, 4, 2]
    assert micro.repeated([4, 1 << 20, 1 << 24]) == [20, 4, 2]


def test_two_ranks_of_this_machine_are_measured():
    found = micro.on_this_machine(["ring", "library"], [4, 1024])
    assert list(found) == ["ring", "library"]
    assert all(list(times) == [4, 1024] and min(times.values()) > 0 for times in found.values())
