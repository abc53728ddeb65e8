"""Traces: what was recorded is what is read, and what is not a trace gets one line."""

import gzip
import json
import os
import re
import resource
import subprocess
import sys
import warnings

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from hpml.errors import UserError
from hpml.modules.m03_profiling.lecture.memory_curve import memory_curve
from hpml.modules.m03_profiling.lecture.operators import operators
from hpml.record.kept import SHIPPED
from hpml.trace.profiler import trace_file
from hpml.trace.profiler.damaged import structure
from hpml.trace.profiler.read import read
from hpml.trace.profiler.reference import FOLDER
from hpml.trace.profiler.shares import shares

from .planted_trace import GLOO, MAIN, Planted


def two_steps() -> Planted:
    planted = Planted(rank=1)
    planted.thread_name(GLOO, f"thread {GLOO} (pt_gloo_runloop)")
    for number in (3, 4):
        start = 1000.5 * number
        planted.event("aten::empty", start + 20, start + 30, **{"Input Dims": [[2, 3], []]})
        planted.event("aten::randn", start + 20, start + 100)
        planted.all_reduce(start + 50, start + 400)
        planted.memory(start + 25, -4096, 8192)
        planted.step(number, start, start + 900)
    planted.link(7, 3021.5, 3500)
    planted.add(ph="s", tid=MAIN, ts=1, cat="fwdbwd", name="fwdbwd", id=8)  # an end alone
    planted.add(ph="X", cat="Trace", name="PyTorch Profiler (0)", tid="x", ts=0, dur=9)
    planted.add(ph="i", s="g", name="Record Window End", pid="", tid="", ts=5000)
    return planted


@pytest.mark.parametrize("name", ["trace.json", "trace.json.gz"])
def test_what_was_recorded_is_read(tmp_path, name):
    trace = read(two_steps().write(tmp_path / name))
    assert (trace.rank, trace.world_size, trace.epoch) == (1, 2, 1790857026000000000)
    names = [trace.names[i] for i in trace.name]
    # What encloses comes before what it encloses, even where both start at the same time.
    first = ["ProfilerStep#3", "aten::randn", "aten::empty", "gloo:all_reduce"]
    assert names == [*first, "ProfilerStep#4", *first[1:]]
    assert [trace.categories[i] for i in trace.category[:4]] == [
        *("user_annotation", "cpu_op", "cpu_op", "user_annotation")
    ]
    assert trace.start[:4] == pytest.approx([3001.5e-6, 3021.5e-6, 3021.5e-6, 3051.5e-6])
    assert trace.duration[:4] == pytest.approx([900e-6, 80e-6, 10e-6, 350e-6])
    assert [trace.threads[i] for i in trace.thread[:4]] == [("100", "100")] * 3 + [("100", "101")]
    assert trace.thread_names[trace.thread[3]] == "thread 101 (pt_gloo_runloop)"
    assert trace.threads[trace.main_thread] == ("100", "100")
    assert [trace.shapes[i] for i in trace.shape[:3]] == ["", "", "[[2, 3], []]"]
    assert [step.number for step in trace.steps] == [3, 4]
    assert [step.seconds for step in trace.steps] == pytest.approx([900e-6] * 2)
    assert trace.links.forward == pytest.approx([3021.5e-6])
    assert trace.links.backward == pytest.approx([3500e-6])
    assert trace.allocations.change.tolist() == [-4096] * 2
    assert trace.allocations.devices == ("cpu",)


def test_a_program_that_is_not_distributed_has_no_rank(tmp_path):
    planted = Planted()
    planted.step(1, 0, 10)
    trace = read(planted.write(tmp_path / "trace.json"))
    assert (trace.rank, trace.world_size) == (None, None)


def test_times_since_1970_keep_their_digits(tmp_path):
    """As PyTorch wrote them until 2.3."""
    planted, now = two_steps(), 1_689_285_164_250_000
    del planted.frame["baseTimeNanoseconds"]
    for event in planted.events:
        event["ts"] = int(event["ts"]) + now
    trace = read(planted.write(tmp_path / "trace.json"))
    assert trace.epoch == 1_689_285_164 * 10**9
    assert trace.start[0] == pytest.approx(0.253001, abs=1e-10)
    assert trace.links.backward[0] - trace.links.forward[0] == pytest.approx(479e-6, abs=1e-10)
    assert trace.allocations.at[0] - trace.start[0] == pytest.approx(25e-6, abs=1e-10)


def test_some_versions_name_no_rank_or_no_world_size(tmp_path):
    planted = Planted()
    planted.frame["distributedInfo"] = {"rank": 3}
    trace = read(planted.write(tmp_path / "trace.json"))
    assert (trace.rank, trace.world_size, len(trace), trace.steps) == (3, None, 0, ())


def test_what_tensorflow_writes_is_read(tmp_path):
    """tensorflow/core/profiler/convert: no categories, threads named by pid and tid."""
    thread = {"ph": "M", "pid": 1, "tid": 9, "name": "thread_name", "args": {"name": "python"}}
    step = {"ph": "X", "pid": 1, "tid": 9, "ts": 5.5, "dur": 20, "name": "train"}
    events = [thread, step | {"args": {"step_num": "0"}}, {}]
    path = tmp_path / "vm.trace.json"
    path.write_text(json.dumps({"displayTimeUnit": "ns", "metadata": {}, "traceEvents": events}))
    trace = read(path)
    assert (trace.names, trace.categories, trace.thread_names) == (("train",), ("",), ("python",))


def test_what_torch_writes_is_read(tmp_path):
    with torch.profiler.profile(
        activities=[torch.profiler.ProfilerActivity.CPU],
        schedule=torch.profiler.schedule(wait=1, warmup=1, active=2),
        on_trace_ready=torch.profiler.tensorboard_trace_handler(str(tmp_path), use_gzip=True),
        record_shapes=True,
        profile_memory=True,
    ) as profiler:
        weights = torch.ones(30, 20, requires_grad=True)
        for _ in range(5):
            with torch.profiler.record_function("forward"):
                loss = (torch.ones(10, 30) @ weights).sum()
            loss.backward()
            profiler.step()
    trace = read(next(tmp_path.iterdir()))
    assert [step.number for step in trace.steps] == [2, 3]
    assert (trace.named("forward") & trace.of("user_annotation")).sum() == 2
    matmul = np.flatnonzero(trace.named("aten::mm"))[0]
    assert trace.shapes[trace.shape[matmul]] == "[[10, 30], [30, 20]]"
    assert len(trace.links.forward) == 4  # a product and a sum in each of two steps
    assert 10 * 30 * 4 in trace.allocations.change.tolist()


@pytest.mark.parametrize(
    "path", [*SHIPPED.glob("*.json.gz"), *FOLDER.glob("*.json.gz")], ids=lambda path: path.name
)
def test_the_sum_of_events_by_name_equals_an_independent_sum(path):
    """Traces that were recorded: kernels of an H200, operators and messages of four ranks."""
    independent: dict[tuple[str, str], float] = {}
    for event in json.loads(gzip.decompress(path.read_bytes()))["traceEvents"]:
        if event["ph"] == "X" and event["cat"] != "Trace":
            of = event["cat"], event["name"]
            independent[of] = independent.get(of, 0.0) + event["dur"]
    trace = read(path)
    seconds = np.zeros((len(trace.categories), len(trace.names)))
    np.add.at(seconds, (trace.category, trace.name), trace.duration)
    for (category, name), microseconds in independent.items():
        place = trace.categories.index(category), trace.names.index(name)
        assert seconds[place] == pytest.approx(1e-6 * microseconds)
    assert seconds.sum() == pytest.approx(1e-6 * sum(independent.values()))


texts = st.text('ab"\\\\{}[],', max_size=6)
values = texts | st.lists(texts, max_size=2) | st.dictionaries(texts, texts, max_size=2)
events_of_any_kind = st.lists(st.dictionaries(texts, values, max_size=3), max_size=4)


@given(events_of_any_kind, st.data())
def test_events_are_found_whole_wherever_a_piece_of_the_file_ends(events, data):
    text = b",".join(json.dumps(event).encode() for event in events) + b'], "name": "]}"}'
    rest, found, closed = b"", [], False
    while not closed:
        size = data.draw(st.integers(1, 200))
        rest, text = (rest + text[:size]).lstrip(b","), text[size:]
        ends, close = structure(rest)
        end = int([0, *ends][-1])
        found += json.loads(b"[" + rest[:end] + b"]")
        rest, closed = rest[end:], close >= 0
    assert found == events


def one(event: str) -> str:
    return '{"traceEvents": [' + event + "]}"


REFUSED = {
    "nothing": ("", "is not a trace"),
    "no JSON": ("steps: 3\n", "is not a trace"),
    "another JSON": ('{"a": [1]}', "is not a trace"),
    "another list": ('[{"traceEvents": []}]', "is not a trace"),
    "numbers": ("[1, 2]", "is not a trace"),
    "cut off in the list": (one('{"ph": "X", "name": "a"')[:-2], "is cut off"),
    "cut off after the list": (one('{"ph": "M"}')[:-1], "is cut off"),
    "cut off before the list": ('{"schemaVersion": 1,', "is cut off"),
    "cut off behind a quote": (one('{"ph": "X", "name": "a"b"}')[:-2], "is cut off"),
    "a timeline of Horovod": (
        '[{"ph": "M", "args": {"start_time_since_epoch_in_micros": 1}}]',
        "is a timeline of Horovod",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_is_no_trace_gets_one_line(tmp_path, case):
    content, expected = REFUSED[case]
    path = tmp_path / "trace.json"
    path.write_text(content)
    with pytest.raises(UserError) as raised:
        read(path)
    line = str(raised.value)
    assert line.startswith(f"trace: {path} ")
    assert expected in line
    assert "\n" not in line
    assert len(line) < len(str(path)) + 250


SKIPPED = {
    "no object": ("17", "no event"),
    "no kind": ('{"name": "a", "ts": 1, "dur": 1}', "an event of no kind ('a')"),
    "a wrong type": ('{"ph": "X", "name": 3}', "not JSON, or of wrong types"),
    "NaN": ('{"ph": "X", "name": "a", "ts": NaN, "dur": 1}', "without a time"),
    "infinity": ('{"ph": "X", "name": "a", "ts": 1e999, "dur": 1}', "not JSON"),
    "late": ('{"ph": "X", "name": "a", "ts": 1e300, "dur": 1}', "without a time of these 100"),
    "no time": ('{"ph": "X", "name": "a", "dur": 1}', "without a time"),
    "no duration": ('{"ph": "X", "name": "a", "ts": 1}', "no, a negative or an endless"),
    "negative": ('{"ph": "X", "name": "a", "ts": 1, "dur": -1}', "duration ('a')"),
    "a huge integer": (
        '{"ph": "X", "ts": 1, "dur": 1, "args": {"correlation": ' + 4000 * "9" + "}}",
        "",
    ),
    "a large integer": (
        '{"ph": "X", "ts": 1, "dur": 1, "args": {"correlation": ' + 20 * "9" + "}}",
        "",
    ),
    "deep": ('{"ph": "X", "args": ' + "[" * 10**5 + "]" * 10**5 + "}", "not JSON"),
    "deep without end": ('{"ph": "X", "args": ' + "[" * 10**5 + "}", "not JSON"),
}  # fmt: skip
GOOD = '{"ph": "X", "name": "good", "ts": 2, "dur": 3}'


@pytest.mark.parametrize("case", SKIPPED)
def test_an_event_that_cannot_be_read_is_skipped_and_named_with_its_place(tmp_path, case):
    event, expected = SKIPPED[case]
    path = tmp_path / "trace.json"
    path.write_text(one(event))
    with pytest.warns(UserWarning, match="events skipped: 1, the first at byte 17: ") as warned:
        trace = read(path)
    assert expected in str(warned[0].message)
    assert (len(trace), trace.skipped) == (0, 1)


@pytest.mark.parametrize("case", [case for case in SKIPPED if case != "no object"])
def test_those_around_it_are_read(tmp_path, case):
    path = tmp_path / "trace.json"
    path.write_text(one(", ".join([GOOD, SKIPPED[case][0], GOOD])))
    with pytest.warns(UserWarning, match=f"the first at byte {17 + len(GOOD) + 2}: "):
        trace = read(path)
    assert (trace.names[0], len(trace)) == ("good", 2)


READ = {
    "quotes in a name": '{\n"ph": "X",\n"name": "stage "A"",\n"ts": 1, "dur": 2\n}',
    "one quote in a name": '{\n"ph": "X",\n"name": "stage "A",\n"ts": 1, "dur": 2\n}',
    "a brace behind a quote": '{\n"ph": "X",\n"name": "stage {"A",\n"ts": 1, "dur": 2\n}',
    "a path": '{"ph": "X", "name": "stage C:\\Users\\A", "ts": 1, "dur": 2}',
    "inf": '{"ph": "X", "name": "stage A", "ts": 1, "dur": 2, "args": {"GB/s": inf, "b": -nan}}',
    "N/A": '{"ph": "X", "name": "stage A", "ts": 1, "dur": 2, "args": {"occupancy": N/A}}',
}


@pytest.mark.parametrize("case", READ)
def test_what_profilers_wrote_is_read_though_it_is_no_json(tmp_path, case):
    path = tmp_path / "trace.json"
    for before, after in ((), ()), ((GOOD,), (GOOD,)), ((), (GOOD,)), ((GOOD,), ()):
        path.write_text(one(",\n".join([*before, READ[case], *after])))
        trace = read(path)
        assert (len(trace), trace.skipped) == (1 + len(before) + len(after), 0)
        (name,) = set(trace.names) - {"good"}
        assert name.startswith("stage ")
        assert name.endswith(("A", '"'))


def test_bytes_that_are_not_utf_8_are_read(tmp_path):
    path = tmp_path / "trace.json"
    path.write_bytes(one(GOOD).encode().replace(b"good", b"go\xffd"))
    assert read(path).names == ("go\ufffdd",)


def test_torch_writes_a_name_with_quotes_and_it_is_read(tmp_path):
    path = tmp_path / "trace.json"
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profiler:
        with torch.profiler.record_function('stage "A" {'):
            torch.ones(3).sum()
        with torch.profiler.record_function('"'):
            torch.ones(3).sum()
    profiler.export_chrome_trace(str(path))
    trace = read(path)
    assert {'stage "A" {', '"', "aten::sum"} <= set(trace.names)
    assert trace.skipped == 0


def test_a_list_alone_is_what_torch_wrote_without_kineto(tmp_path):
    path = tmp_path / "trace.json"
    path.write_text(f"\ufeff[{GOOD}, {GOOD}]\n")
    assert len(read(path)) == 2


def test_what_stands_beside_the_events_may_be_no_json(tmp_path):
    planted = two_steps()
    text = planted.text().replace('"traceName": "x"', '"traceName": "C:\\Users\\A "x""')
    path = tmp_path / "trace.json"
    path.write_text(text.replace('"traceName"', '"INFO": {"a": "b "c" {"},\n"traceName"'))
    with pytest.warns(UserWarning, match="beside the events"):
        trace = read(path)
    assert (trace.rank, trace.world_size, trace.epoch) == (1, 2, 1790857026000000000)


def test_categories_until_torch_1_11_are_read_as_todays(tmp_path):
    planted = two_steps()
    former = {"cpu_op": "Operator", "user_annotation": "Operator", "fwdbwd": "forward_backward"}
    for event in planted.events:
        if event.get("cat") in former:
            event["cat"] = former[event["cat"]]
    trace = read(planted.write(tmp_path / "trace.json"))
    assert [step.number for step in trace.steps] == [3, 4]
    assert trace.of("cpu_op").sum() == 6
    assert len(trace.links.forward) == 1


@given(st.data())
def test_the_sum_of_events_by_name_is_an_independent_sum_whatever_is_damaged(
    tmp_path_factory, data
):
    """Names with quotes and braces in Kineto's layout: each event is read once, or skipped.

    No name has a closing brace: behind a quote it would end its event.
    """
    names = st.text('a"{[,\\:', min_size=1, max_size=8)
    drawn = data.draw(st.lists(st.tuples(names, st.integers(0, 999)), min_size=1, max_size=8))
    events = [
        f'{{\n    "ph": "X",\n    "name": "n{name}",\n    "ts": {at}, "dur": {dur}\n  }}'
        for at, (name, dur) in enumerate(drawn)
    ]
    path = tmp_path_factory.getbasetemp() / "quoted.json"
    path.write_text('{"traceEvents": [\n' + ",\n  ".join(events) + '\n], "traceName": "x"}')
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        trace = read(path)
    assert len(trace) + trace.skipped == len(drawn)
    if not trace.skipped:
        assert trace.duration.sum() == pytest.approx(1e-6 * sum(dur for _, dur in drawn))


ODD = (
    "0",
    "-1",
    "1e18",
    "1e400",
    "9" * 30,
    "NaN",
    "null",
    "true",
    '"a"',
    '""',
    "[]",
    "{}",
    "[[1]]",
)


@given(st.data())
def test_any_damage_gives_a_trace_or_one_line(tmp_path_factory, data):
    text = two_steps().text()
    for _ in range(data.draw(st.integers(0, 3))):
        found = data.draw(st.sampled_from([*re.finditer(r"(?<=: )[^ ,{\[\n]+", text)]))
        text = text[: found.start()] + data.draw(st.sampled_from(ODD)) + text[found.end() :]
    start = data.draw(st.integers(0, len(text)))
    text = text[:start] + text[start + data.draw(st.sampled_from([0, 1, 30, len(text)])) :]
    path = tmp_path_factory.getbasetemp() / "damaged.json"
    path.write_text(text)
    assert "\n" not in outcome(path)


def outcome(path):
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            trace = read(path)
        operators(trace)
        memory_curve(trace)
        assert shares(trace).step == pytest.approx(mean_step(trace), rel=1e-6, abs=1e-6)
    except UserError as error:
        return str(error)
    return "a trace"


def mean_step(trace):
    return sum(step.seconds for step in trace.steps) / len(trace.steps)


def test_a_packed_trace_that_was_cut_off_or_damaged_gets_one_line(tmp_path):
    path = two_steps().write(tmp_path / "trace.json.gz")
    content = path.read_bytes()
    path.write_bytes(content[: len(content) // 2])
    with pytest.raises(UserError, match="is cut off"):
        read(path)
    path.write_bytes(content[:30] + bytes(100) + content[130:])
    faults = "(is damaged|has a record|is not a trace)"
    with pytest.raises(UserError, match=rf"trace\.json\.gz {faults}"):
        read(path)


def test_a_folder_and_a_file_that_is_not_there_get_one_line(tmp_path):
    for path in (tmp_path, tmp_path / "none.json"):
        with pytest.raises(UserError, match="is not a file"):
            read(path)


def test_more_than_the_limits_is_refused(tmp_path, monkeypatch):
    path = two_steps().write(tmp_path / "trace.json")
    monkeypatch.setattr(trace_file, "MAX_EVENTS", 5)
    with pytest.raises(UserError, match="more than 5 events: profile fewer steps"):
        read(path)
    monkeypatch.setattr(trace_file, "MAX_BYTES", 2**20)
    path.write_text(two_steps().text() + " " * 2**20)
    with pytest.raises(UserError, match="is larger than 1 MiB unpacked"):
        read(path)


def test_an_event_that_is_larger_than_a_piece_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(trace_file, "PIECE", 1000)
    planted = two_steps()
    planted.event("aten::stack", 10, 20, text="x" * 3000)
    with pytest.raises(UserError, match="an event of more than 1,000 bytes"):
        read(planted.write(tmp_path / "trace.json"))


def test_a_trace_is_read_in_pieces_of_any_size(tmp_path, monkeypatch):
    path = two_steps().write(tmp_path / "trace.json")
    whole = read(path)
    for size in range(700, 760):
        monkeypatch.setattr(trace_file, "PIECE", size)
        pieces = read(path)
        assert pieces.names == whole.names
        assert (pieces.start == whole.start).all()


def test_a_bomb_stays_within_the_stated_memory(tmp_path):
    path = tmp_path / "bomb.json.gz"
    event = b'{"ph":"X","name":"a","ts":1,"dur":1},'
    with gzip.open(path, "wb", compresslevel=1) as file:
        file.write(b'{"traceEvents": [' + event * 10**6)
    # 1 GiB for 5 million events: a fifth of both.
    program = (
        "import sys; from hpml.errors import UserError\n"
        "from hpml.trace.profiler import trace_file\n"
        "from hpml.trace.profiler.read import read\n"
        "trace_file.MAX_EVENTS //= 5\n"
        "try: read(sys.argv[1])\n"
        "except UserError as error: print(error)"
    )
    limit = 2**30 // 5
    done = subprocess.run(
        [sys.executable, "-c", program, path],
        capture_output=True,
        text=True,
        timeout=300,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_DATA, (limit, limit)),
        env=os.environ | {"OPENBLAS_NUM_THREADS": "1"},
    )
    assert "is cut off" in done.stdout, done.stderr
