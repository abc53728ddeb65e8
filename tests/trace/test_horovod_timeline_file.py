"""Horovod's timeline files: what was written is what is read, wherever the file ends."""

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hpml.errors import UserError
from hpml.trace.horovod_timeline import collectives
from hpml.trace.horovod_timeline_file import parse, read, read_first_half

from .horovod_file import START, Writer

names = st.text(
    st.characters(codec="utf-8", exclude_characters='"\\', exclude_categories=("C",)), min_size=1
)
# Rounds of messages, each of which is some tensors with their lengths.
rounds = st.lists(
    st.lists(
        st.dictionaries(names, st.integers(0, 10**6), min_size=1, max_size=3),
        min_size=1,
        max_size=3,
    ),
    min_size=1,
    max_size=3,
)


def written(content) -> Writer:
    file = Writer()
    for messages in content:
        file.cycle()
        for fused in messages:
            for tensor in fused:
                file.negotiate(tensor, [1, 0])
            file.now += 3
            file.reduce(fused, us=100)
    return file


@given(rounds)
def test_every_message_is_read_with_its_tensors_and_bytes(content):
    timeline = parse(written(content).content)
    seen = [{o.tensor: o.nbytes for o in one.operations} for one in collectives(timeline)]
    expected = [{t: 4 * n for t, n in fused.items()} for messages in content for fused in messages]
    assert seen == expected
    assert all(one.fused == (len(one.operations) > 1) for one in collectives(timeline))
    assert not timeline.cut
    assert timeline.started == START / 1e6


@settings(max_examples=50)
@given(rounds, st.data())
def test_a_file_cut_off_at_any_byte_is_read_up_to_there(content, data):
    file = written(content)
    whole = parse(file.content)
    at = data.draw(st.integers(0, len(file.content) - 1))
    cut = parse(file.content[:at])
    assert cut.cut
    assert cut.cut_at <= at
    complete = sum(end <= at for end in file.ends)
    # The same as of a file that was ended well after the last complete event.
    ended = file.content[: file.ends[complete - 1]] + b"]" if complete else b"[]"
    assert cut.operations == parse(ended).operations
    assert len(cut.operations) <= len(whole.operations)
    for ours, theirs in zip(cut.operations, whole.operations, strict=False):
        assert ours.tensor == theirs.tensor
        if ours.turn and ours.turn.end is not None:
            assert ours == theirs


def test_a_file_that_ends_in_a_tensors_turn_has_what_had_begun(tmp_path):
    file = Writer()
    file.negotiate("a", [0, 1])
    file.event("B", "a", "ALLREDUCE")
    file.event("B", "a", "GLOO_ALLREDUCE")
    path = tmp_path / "timeline.json"
    path.write_bytes(file.content[:-1] + b',{"ph": "E", "ts": 12')
    timeline = read(path)
    (operation,) = timeline.operations
    assert [span.end for span in operation.activities] == [None]
    assert operation.nbytes is None
    assert timeline.describe() == (
        "1 operation on 1 tensor, 1 collective; the file is cut off after "
        f"{len(file.content) - 1} bytes; 2 spans begun and not ended"
    )


def test_a_barrier_is_negotiated_and_not_transferred():
    file = Writer()
    file.negotiate("barrier.noname", [0, 1], kind="BARRIER")
    timeline = parse(file.content)
    assert [o.kind for o in timeline.operations] == ["BARRIER"]
    assert collectives(timeline) == ()


def test_a_tensor_whose_turn_was_lost_is_negotiated_anew():
    file = Writer()
    file.negotiate("a", [0, 1])
    file.negotiate("a", [0, 1])
    file.reduce({"a": 1}, us=1)
    first, second = parse(file.content).operations
    assert first.turn is None
    assert second.turn is not None


def test_ends_without_a_begin_are_left_out():
    file = Writer()
    file.event("E", "a")
    file.reduce({"a": 1}, us=1)
    assert len(parse(file.content).operations) == 1


@pytest.mark.parametrize(
    "content",
    [
        b"no timeline",
        b'{"traceEvents": []}',
        b"[1, 2]",
        b'[{"ph": "B" "name": "a"}, {"ph": "E"}]',
        b'[{"ph": "B", "name": "a", "ts": 1, "pid": 7}]',
        b'[{"ph": "X", "name": "add", "ts": 1, "pid": 0}]',
        b'[{"name": "a"}]',
    ],
)
def test_what_horovod_did_not_write_is_refused_in_one_line(content):
    with pytest.raises(UserError, match="name the file that HOROVOD_TIMELINE named") as refused:
        parse(content)
    assert "\n" not in str(refused.value)


RECORDED = Path(__file__).with_name("recorded_0.28.1.json")


def test_a_recorded_timeline_is_read():
    """Two ranks, killed after two steps of three fused tensors and a broadcast."""
    timeline = read(RECORDED)
    seen = [
        ([o.tensor for o in one.operations], one.transfer.name, one.nbytes)
        for one in collectives(timeline)
    ]
    layers = [f"allreduce.layer.{n}" for n in (2, 3, 4)]
    assert seen == [
        (layers, "GLOO_ALLREDUCE", 4 * (4 + 9 + 16)),
        (layers, "GLOO_ALLREDUCE", 4 * (4 + 9 + 16)),
        (["broadcast.start"], "GLOO_BCAST", None),
    ]
    assert timeline.describe() == (
        "7 operations on 4 tensors, 3 collectives; 1 span begun and not ended"
    )
    first, second = (timeline.round(k).operations[1] for k in (0, 1))
    assert [rank for rank, _ in first.ready] == [0, 1]
    assert second.ready == ()  # answered from the cache
    assert first.seconds("prepare") > 0 == second.seconds("prepare")


def test_a_recorded_timeline_is_read_wherever_it_ends():
    content = RECORDED.read_bytes().rstrip()
    whole = parse(content).operations
    for at in range(0, len(content), 11):
        cut = parse(content[:at])
        assert cut.cut
        assert [o.tensor for o in cut.operations] == [
            o.tensor for o in whole[: len(cut.operations)]
        ]


def test_a_file_that_is_not_there_is_named(tmp_path):
    with pytest.raises(UserError, match=r"nothing\.json cannot be read"):
        read(tmp_path / "nothing.json")


def test_half_a_file_is_what_a_killed_job_leaves(tmp_path):
    file = written([[{"a": 1}], [{"b": 2}], [{"c": 3}]])
    path = tmp_path / "timeline.json"
    path.write_bytes(file.content)
    half = read_first_half(path)
    assert half.cut_at <= len(file.content) // 2
    assert 0 < len(half.operations) < len(read(path).operations)


def test_a_name_is_read_whatever_is_in_it_and_the_cut_is_in_bytes_of_the_file():
    """As Horovod 0.28.1 writes it: quotes, backslashes and line breaks as they are."""
    named = '{"name": "process_name", "ph": "M", "pid": %d, "args": {"name": "%s"}}'
    names = ['w["a"]', "C:\\Users", "two\nlines", "usual"]
    records = [named % (pid, name) for pid, name in enumerate(names, 1)]
    records += [
        f'{{"ph": "{kind}", "name": "NEGOTIATE_ALLREDUCE", "ts": {at}, "pid": {pid}}}'
        for pid in range(1, len(names) + 1)
        for at, kind in enumerate("BE")
    ]
    content = ("[\n" + ",\n".join(records) + "\n]").encode()
    assert [one.tensor for one in parse(content).operations] == names
    cut = parse(content[:-10])
    assert cut.cut_at == content.rindex(b",\n{")
