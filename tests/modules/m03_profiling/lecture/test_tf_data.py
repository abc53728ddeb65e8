"""TensorFlow's profile of an input pipeline: planted ones to the picosecond, and a real one."""

from pathlib import Path

import pytest

from hpml.errors import UserError
from hpml.modules.m03_profiling.lecture import tf_data, tf_data_picture, tf_data_profiled

ROOT = "Iterator::Root::BatchV2"


def write(folder: Path, threads: list[list[tuple[str, int, int, str]]], time: str = "t1") -> Path:
    """A profile of events (name, start and duration in ns, the stage's own name), by thread."""
    space = tf_data._schema().XSpace()
    plane = space.planes.add(name="/host:CPU")
    plane.stat_metadata[1].name = "name"
    numbers: dict[str, int] = {}
    for number, events in enumerate(threads):
        line = plane.lines.add(id=number, timestamp_ns=1000)
        for name, start, duration, given in events:
            place = numbers.setdefault(name, len(numbers) + 1)
            plane.event_metadata[place].name = name
            event = line.events.add(metadata_id=place)
            event.offset_ps, event.duration_ps = 1000 * start, 1000 * duration
            event.stats.add(metadata_id=1, str_value=given)
    file = folder / "plugins" / "profile" / time / "host.xplane.pb"
    file.parent.mkdir(parents=True)
    file.write_bytes(space.SerializeToString())
    return file


STEP = [
    ("train", 0, 100, ""),
    (tf_data.NEXT, 10, 70, ""),
    (ROOT, 10, 60, "BatchDatasetV2:1"),
    (f"{ROOT}::Map", 15, 40, "augment"),
    (f"{ROOT}::Map::Map", 20, 25, "decode"),
    (f"{ROOT}::Map::Map::TensorSlice", 30, 5, "TensorSliceDataset:0"),
]


def test_a_stages_time_is_without_that_of_the_stages_before_it(tmp_path):
    write(tmp_path, [STEP])
    found = tf_data.read(tmp_path)
    assert [(stage.name, stage.calls) for stage in found.stages] == [
        ("slices", 1), ("decode", 1), ("augment", 1), ("batch", 1),
    ]  # fmt: skip
    assert [1e9 * stage.seconds for stage in found.stages] == pytest.approx([5, 20, 15, 20])
    assert sum(stage.seconds for stage in found.stages) == pytest.approx(60e-9)
    assert (found.steps, found.share) == (1, pytest.approx(0.7))


def test_a_stage_on_another_thread_counts_by_itself_and_waiting_outside_steps_does_not(tmp_path):
    alone = [("train", 0, 100, ""), (tf_data.NEXT, 10, 20, ""), (tf_data.NEXT, 120, 50, "")]
    alone += [("Iterator::Root::Prefetch", 10, 20, "")]
    worker = [("Iterator::Root::Prefetch::Map", start, 30, "augment") for start in (0, 40, 80)]
    write(tmp_path, [alone, worker])
    found = tf_data.read(tmp_path)
    assert found.waiting == pytest.approx(20e-9)
    assert {stage.name: (stage.calls, round(1e9 * stage.seconds)) for stage in found.stages} == {
        "augment": (3, 90), "prefetch": (1, 20),
    }  # fmt: skip


def test_a_stage_that_is_begun_anew_in_each_epoch_is_one_stage(tmp_path):
    epochs = [(f"Iterator::Root::ForeverRepeat[{n}]::Shuffle", 10 * n, 5, "") for n in range(3)]
    write(tmp_path, [[("train", 0, 100, ""), *epochs]])
    (stage,) = tf_data.read(tmp_path).stages
    assert (stage.name, stage.path, stage.calls) == (
        "shuffle", "Iterator::Root::ForeverRepeat::Shuffle", 3,
    )  # fmt: skip


def test_the_newest_profile_is_read(tmp_path):
    write(tmp_path, [[*STEP, ("train", 200, 100, "")]], "2026_11_23_02_30_33")
    write(tmp_path, [STEP], "2026_11_23_02_30_34")
    assert tf_data.read(tmp_path).steps == 1


def test_what_is_no_profile_gets_one_line(tmp_path):
    with pytest.raises(UserError, match="was the profiler stopped"):
        tf_data.read(tmp_path)
    file = write(tmp_path, [STEP])
    with pytest.raises(UserError, match="has no step 'eval'"):
        tf_data.read(tmp_path, step="eval")
    file.write_bytes(file.read_bytes()[:-3])
    with pytest.raises(UserError, match="was it cut off"):
        tf_data.read(tmp_path)


def test_a_profile_without_tf_data_gets_one_line(tmp_path):
    write(tmp_path, [STEP[:1]])
    with pytest.raises(UserError, match=r"has no stage of tf\.data"):
        tf_data.read(tmp_path)


def test_without_tensorflow_it_says_so(tmp_path, monkeypatch):
    write(tmp_path, [STEP])
    monkeypatch.delitem(tf_data.sys.modules, tf_data.SCHEMA)
    monkeypatch.setattr(tf_data.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(UserError, match="tensorflow is not installed"):
        tf_data.read(tmp_path)


def test_of_a_real_program_every_stage_is_found_in_its_order(tmp_path):
    found = tf_data_profiled.profile(tmp_path)
    names = [stage.name for stage in found.stages]
    assert names == ["slices", "shuffle", "repeat", "decode", "augment", "batch"]
    assert found.steps == tf_data_profiled.STEPS
    calls = {stage.name: stage.calls for stage in found.stages}
    images = tf_data_profiled.STEPS * tf_data_profiled.BATCH
    assert (calls["decode"], calls["augment"], calls["batch"]) == (images, images, found.steps)
    # All of it happens while the network waits: nothing is made ahead.
    assert sum(stage.seconds for stage in found.stages) <= found.waiting
    figure = tf_data_picture.picture({"as written": found}, title="it waits")
    labels = [label.get_text() for label in figure.axes[0].get_yticklabels()]
    assert labels == [*names, "whole step"]
