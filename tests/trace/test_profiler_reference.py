"""The traces that come with the course are four ranks', small, and show what was planted."""

import gzip
import json

from hpml.trace.profiler import reference
from hpml.trace.profiler.communication import communication
from hpml.trace.profiler.ranks import read_ranks
from hpml.trace.profiler.straggler import straggler

FILES = sorted(reference.FOLDER.iterdir())


def test_they_show_the_rank_that_was_slowed_down():
    traces = read_ranks(reference.FOLDER)
    found = straggler(traces)
    assert (found.rank, found.since, found.phase) == reference.PLANTED
    assert len(traces) == reference.RANKS
    assert {len(trace.steps) for trace in traces} == {reference.STEPS}
    exposed = [one.exposed for one in communication(traces)]
    assert exposed.index(min(exposed)) == found.rank


def test_they_are_small_and_name_no_machine():
    assert [path.name for path in FILES] == [f"rank{n}.pt.trace.json.gz" for n in range(4)]
    assert sum(path.stat().st_size for path in FILES) < 300_000
    for path in FILES:
        trace = json.loads(gzip.decompress(path.read_bytes()))
        assert (trace["traceName"], trace["host_name"]) == ("", "n1")
        names = {event["name"] for event in trace["traceEvents"]}
        assert not [name for name in names if name.startswith("/")]


def test_a_jobs_traces_are_in_proportion_to_its_ranks_and_steps():
    there = sum(path.stat().st_size for path in FILES)
    assert reference.size(reference.RANKS, reference.STEPS) == there
    assert reference.size(2 * reference.RANKS, 3 * reference.STEPS) == 6 * there
