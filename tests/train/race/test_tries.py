"""The learner's file: what is added stays, and what is torn or hostile harms nobody."""

import json
import math
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hpml.errors import UserError
from hpml.train.race import tries

from .made_tries import TINY, below, made

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=8,
)


def test_what_is_added_is_read_and_the_last_line_of_a_try_counts(tmp_path):
    path = tmp_path / "tries.jsonl"
    begun = replace(made(id="a"), status=tries.BEGAN, points=(), first_step=math.nan)
    for one in (begun, made(id="b"), made(id="a")):
        tries.append(one, path)
    assert tries.read(path) == ([made(id="a"), made(id="b")], 0)


def test_no_file_is_no_try(tmp_path):
    assert tries.read(tmp_path / "none") == ([], 0)


def test_a_try_after_a_torn_line_has_a_line_of_its_own(tmp_path):
    path = tmp_path / "tries.jsonl"
    tries.append(made(id="a"), path)
    path.write_bytes(path.read_bytes() + b'{"race": 1, "goal": "ti')
    tries.append(made(id="b"), path)
    found, skipped = tries.read(path)
    assert ([one.id for one in found], skipped) == (["a", "b"], 1)


def test_several_at_once_lose_nothing(tmp_path):
    path = tmp_path / "tries.jsonl"
    with ThreadPoolExecutor(8) as threads:
        list(threads.map(lambda k: tries.append(made(id=str(k)), path), range(40)))
    assert {one.id for one in tries.read(path)[0]} == {str(k) for k in range(40)}


@pytest.mark.parametrize(
    "line",
    [
        b"\xff\xfe\x00",
        b"[" * 100_000,
        b"1" * 10_000,
        b"null",
        b'{"race": 1}',
        json.dumps(made().record() | {"race": 2}).encode(),
        json.dumps(made().record() | {"status": ["reached"]}).encode(),
        json.dumps(made().record() | {"points": [[1, math.nan, 1.0]]}).encode(),
        json.dumps(made().record() | {"points": [[64, 1.0, 0.2]]}).encode(),  # not reached
        json.dumps(made().record() | {"points": [[64, 2.0, 0.1], [128, 1.0, 0.9]]}).encode(),
        json.dumps(made().record() | {"points": [[True, 1.0, 0.9]]}).encode(),
        json.dumps(made().record() | {"accuracy": -1}).encode(),
        json.dumps(made().record() | {"switches": {"ranks": 2}}).encode(),
        json.dumps(made().record() | {"device": 7}).encode(),
    ],
)
def test_what_is_no_try_is_skipped_and_counted(tmp_path, line):
    path = tmp_path / "tries.jsonl"
    path.write_bytes(line + b"\n")
    tries.append(made(id="a"), path)
    assert [one.id for one in tries.read(path)[0]] == ["a"]
    assert tries.read(path)[1] == 1


def test_values_that_a_switch_cannot_have_are_no_try():
    record = made().record()
    record["switches"]["loader"] = "rm"
    with pytest.raises(UserError):
        tries.try_of(record)


@given(field=st.sampled_from(sorted(made().record())), value=JSON)
def test_whatever_stands_in_a_field_it_is_a_try_or_refused(field, value):
    try:
        one = tries.try_of(made().record() | {field: value})
    except (ValueError, UserError):
        return
    assert json.loads(json.dumps(one.record(), allow_nan=False))["race"] == 1
    assert all(text.isprintable() for text in (one.goal, one.device, one.why, one.began, one.id))


def test_text_that_would_redraw_a_terminal_is_made_safe():
    record = made().record() | {"device": "\x1b[2Jcpu\n", "why": "a\u202eb"}
    one = tries.try_of(record)
    assert one.device.isprintable()
    assert one.why.isprintable()


def test_only_tries_for_one_goal_on_one_kind_of_images_are_compared():
    real = replace(made(3.0), synthetic=False)
    other = replace(made(2.0), accuracy=0.7)
    unread = replace(made(1.0), status=tries.FAILED, points=(), synthetic=None)
    kept = [made(5.0), real, other, unread]
    assert tries.comparable(kept, TINY, True) == [made(5.0), unread]
    assert tries.comparable(kept, TINY, None) == [real, unread]  # of the latest


def test_the_best_is_the_quickest_that_reached_its_goal():
    assert tries.best([made(4.0), made(3.0), below(), made(5.0)]) == made(3.0)
    assert tries.best([below()]) is None


def test_seconds_are_images_over_images_per_second():
    one = made(4.0)
    assert one.images / one.images_per_second == one.seconds == 4.0
    assert below().seconds == math.inf
