"""TensorBoard's event files, read back from what SummaryWriter wrote."""

import numpy as np
import pytest
from tensorboard.compat.proto import summary_pb2
from torch.utils.tensorboard import SummaryWriter
from torch.utils.tensorboard.summary import hparams

from hpml.errors import UserError
from hpml.modules.m03_profiling.lecture import event_files_picture
from hpml.trace import event_files

VALUES = np.array([0.0, 0.1, 0.9, 1.0])


def write(folder) -> None:
    event_files.leave_tensorflow_out()
    with SummaryWriter(folder) as writer:
        for summary in hparams({"lr": 0.5, "model": "vit", "mixed": True}, {"loss": 0.0}):
            writer.file_writer.add_summary(summary)
        for step in (10, 20):
            writer.add_scalar("loss", 1 / step, step)
            writer.add_histogram("weights", VALUES * step, step, bins=2)
            writer.add_image("white", np.full((3, 4, 6), 255, np.uint8), step)
    (folder / "rank0.pt.trace.json.gz").write_bytes(b"x" * 2000)


def test_everything_that_was_written_is_read_by_its_kind_and_name(tmp_path):
    write(tmp_path)
    found = event_files.read(tmp_path)
    assert found.scalars == {"loss": [(10, pytest.approx(0.1)), (20, pytest.approx(0.05))]}
    first, last = found.histograms["weights"]
    assert (first.step, last.step) == (10, 20)
    assert last.edges[[0, -1]].tolist() == [0, 20]
    assert last.counts.sum() == len(VALUES)
    assert last.counts[last.counts > 0].tolist() == [2, 2]
    assert [step for step, _ in found.images["white"]] == [10, 20]
    assert found.images["white"][0][1].startswith(b"\x89PNG")
    assert found.hyperparameters == {"lr": 0.5, "model": "vit", "mixed": True}
    assert list(found.hyperparameters) == ["lr", "mixed", "model"]
    assert found.profiles == ["rank0.pt.trace.json.gz"]


def test_a_histograms_first_bar_begins_at_the_least_number():
    found = summary_pb2.HistogramProto(min=-3, max=2, bucket_limit=[0, 2], bucket=[5, 1])
    histogram = event_files._histogram(7, found)
    assert (histogram.step, histogram.edges.tolist()) == (7, [-3, 0, 2])
    assert histogram.counts.tolist() == [5, 1]


def test_sizes_are_bytes_and_the_table_has_a_row_for_each_kind(tmp_path):
    write(tmp_path)
    found = event_files.read(tmp_path)
    assert found.sizes["profiles"] == 2000
    events = sum(path.stat().st_size for path in tmp_path.glob("events*"))
    assert 0 < found.sizes["scalars"] < found.sizes["images"] < events
    rows = found._repr_markdown_().splitlines()
    assert [row.split(" | ")[0].strip("| ") for row in rows[2:]] == list(event_files.KINDS)
    assert rows[-1].endswith("| `rank0.pt.trace.json.gz` | 2.0 |")


def test_of_a_file_that_is_cut_off_the_whole_events_are_read(tmp_path):
    write(tmp_path)
    (file,) = tmp_path.glob("events*")
    file.write_bytes(file.read_bytes()[:-20])
    found = event_files.read(tmp_path)
    assert len(found.scalars["loss"]) == 2
    assert len(found.images["white"]) == 1


def test_a_folder_with_nothing_gets_one_line(tmp_path):
    with pytest.raises(UserError, match="what wrote to it"):
        event_files.read(tmp_path)


def test_the_picture_has_each_curve_and_a_histogram_for_each_step(tmp_path):
    write(tmp_path)
    figure = event_files_picture.picture(
        event_files.read(tmp_path),
        curves=["loss"],
        histogram="weights",
        image="white",
        title="it falls",
    )
    curves, histogram, image = figure.axes
    assert curves.lines[0].get_xydata().tolist() == [
        [10, pytest.approx(0.1)],
        [20, pytest.approx(0.05)],
    ]
    assert [label.get_text() for label in histogram.get_yticklabels()] == ["10", "20"]
    assert image.get_images()
