import gzip
import json

import pytest

from hpml.errors import UserError
from hpml.trace.profiler.ranks import read_ranks


def write(path, rank, world_size, name="step", base=0):
    event = {"ph": "X", "cat": "cpu_op", "name": name, "pid": 1, "tid": 1, "ts": 5e6, "dur": 1.0}
    trace = {"schemaVersion": 1, "traceEvents": [event], "baseTimeNanoseconds": base}
    if rank is not None:
        trace["distributedInfo"] = {"backend": "gloo", "rank": rank, "world_size": world_size}
    data = json.dumps(trace).encode()
    path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)


def test_traces_come_by_rank_whatever_their_files_are_called(tmp_path):
    for rank, name in ((1, "a.1.pt.trace.json"), (0, "b.2.pt.trace.json.gz"), (2, "c.json")):
        write(tmp_path / name, rank, 3)
    (tmp_path / "notes.txt").write_text("not a trace")
    assert [trace.rank for trace in read_ranks(tmp_path)] == [0, 1, 2]


def test_of_a_rank_with_several_traces_the_newest_counts(tmp_path):
    for time, name in ((9, "old"), (10, "new")):  # by number, not by letter
        write(tmp_path / f"rank0.{time}.pt.trace.json", 0, 1, name)
    (trace,) = read_ranks(tmp_path)
    assert trace.names == ("new",)


def test_a_rank_without_a_trace_is_named(tmp_path):
    write(tmp_path / "rank1.1.pt.trace.json", 1, 4)
    with pytest.raises(UserError, match="of 4 ranks, these have no trace: 0, 2, 3"):
        read_ranks(tmp_path)


def test_a_trace_of_no_rank_is_named_with_the_remedy(tmp_path):
    write(tmp_path / "worker.1.pt.trace.json", None, None)
    with pytest.raises(UserError, match=r"worker\S+: names no rank: call init_process_group"):
        read_ranks(tmp_path)


def test_an_empty_folder_has_no_traces(tmp_path):
    with pytest.raises(UserError, match="no trace in it"):
        read_ranks(tmp_path)


def test_traces_with_zeros_of_their_own_have_one_zero(tmp_path):
    """Both events were 5 s after their file's zero, and the second zero is 2 s later."""
    write(tmp_path / "a.json", 0, 2, base=10**18)
    write(tmp_path / "b.json", 1, 2, base=10**18 + 2 * 10**9)
    first, second = read_ranks(tmp_path)
    assert second.start[0] - first.start[0] == pytest.approx(2.0)
    assert second.epoch == first.epoch


def test_without_a_number_of_ranks_there_are_those_that_wrote(tmp_path):
    for rank in range(2):
        write(tmp_path / f"rank{rank}.json", rank, None)
    assert len(read_ranks(tmp_path)) == 2


def test_what_is_no_trace_beside_the_traces_is_passed_over(tmp_path):
    write(tmp_path / "rank0.json", 0, 1)
    (tmp_path / "config.json").write_text('{"epochs": [4]}')
    (tmp_path / "._rank0.json").write_bytes(b"\x00\x05\x16\x07")
    assert len(read_ranks(tmp_path)) == 1


def test_some_of_many_ranks_can_be_asked_for(tmp_path):
    for rank in (127, 0):
        write(tmp_path / f"rank{rank}.json", rank, 128)
    with pytest.raises(UserError, match="of 128 ranks"):
        read_ranks(tmp_path)
    assert [trace.rank for trace in read_ranks(tmp_path, some=True)] == [0, 127]


def test_a_folder_that_is_not_there_is_one_line(tmp_path):
    with pytest.raises(UserError, match="no such folder"):
        read_ranks(tmp_path / "none")
