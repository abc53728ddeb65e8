"""The micro-benchmark: its table's figures, its sizes, and what is concluded of times."""

from hpml.allreduce import micro_benchmark as micro
from hpml.allreduce.curves import Network
from hpml.measure.comm import Fit
from hpml.network.link import parse_link

NAN = float("nan")
GIGABIT = Network(parse_link("1gbit", 4), 4, Fit(1e-4, 8e-9, NAN, NAN), None)


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


def line(alpha, beta):
    return {n: alpha + n * beta for n in micro.sizes(1 << 26)}


def test_latency_then_bandwidth_is_seen_where_it_is():
    held, sentence, _ = micro.latency_then_bandwidth(line(1e-4, 1e-9))
    assert held
    assert "1,024 times the bytes" in sentence
    assert "take 1.0 times as long" in sentence
    assert not micro.latency_then_bandwidth(line(1e-9, 1e-9))[0]
    assert not micro.latency_then_bandwidth(line(1.0, 1e-12))[0]


def test_who_wins_is_read_off_both_ends():
    doubling = {n: 2 * (1e-4 + n * 8e-9) for n in micro.sizes(1 << 24)}
    ring = {n: 6e-4 + 1.5 * n * 8e-9 for n in micro.sizes(1 << 24)}
    held, sentence, _ = micro.who_wins(GIGABIT, doubling, ring)
    assert held
    assert "quicker from 262 kB on" in sentence
    assert "equal at 100 kB with the α of two ranks alone, 100 µs, and at 100 kB" in sentence
    late = {n: seconds + 6 * 4e-4 for n, seconds in ring.items()}
    sentence = micro.who_wins(GIGABIT, doubling, late)[1]
    assert "and at 500 kB with that of a ring's message" in sentence
    assert not micro.who_wins(GIGABIT, ring, doubling)[0]


def test_software_counts_for_small_messages_and_the_link_for_large_ones():
    python = {n: 1e-3 + n * 1.2e-8 for n in micro.sizes(1 << 24)}
    c = {n: 1e-4 + n * 1.2e-8 for n in micro.sizes(1 << 24)}
    held, sentence, _ = micro.software_and_link(python, c, 4)
    assert held
    assert "takes 9.9 times as long" in sentence or "takes 10.0 times as long" in sentence
    assert "1.00 times as long" in sentence
    assert not micro.software_and_link(c, c, 4)[0]


def test_two_ranks_of_this_machine_are_measured():
    found = micro.on_this_machine(["ring", "library"], [4, 1024])
    assert list(found) == ["ring", "library"]
    assert all(list(times) == [4, 1024] and min(times.values()) > 0 for times in found.values())
