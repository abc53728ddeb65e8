"""./hpml bench io: its arithmetic, and one tiny run for real."""

import pytest

from hpml.bench import io
from hpml.bench.table import Table

REACHED = {
    "disk, cold: plain read": [1000.0, 2000.0],
    "disk, cold: files, in order": [100.0, 100.0],
    "/dev/shm: plain read": [4000.0, 4000.0],
    "/dev/shm: files, in order": [1000.0, 1000.0],
    "DataLoader, 0 workers": [10.0, 30.0],
    "DataLoader, 2 workers": [20.0, 15.0],
    "course's loader": [100.0, 300.0],
    io.COPY: [10.0, 10.0],
    io.GATHERED: [6.0, 4.0],
    io.STREAMED: [10.0, 20.0],
    io.PACKED: [30.0, 30.0],
    "tf.data": [50.0, 50.0],
}


def test_storage_is_compared_with_a_plain_read_from_the_same_place():
    table = Table("", io.rows(REACHED), {})
    row = {row.name: row for row in table.rows}
    assert table.ratios(row["disk, cold: files, in order"]) == [0.1, 0.05]
    assert table.ratios(row["/dev/shm: files, in order"]) == [0.25, 0.25]
    assert table.ratios(row["disk, cold: plain read"]) == []


def test_the_best_number_of_workers_is_that_of_each_round():
    table = Table("", io.rows(REACHED), {})
    row = {row.name: row for row in table.rows}
    assert row[io.BEST].values == [20.0, 30.0]
    assert table.ratios(row[io.COURSE]) == [5.0, 10.0]
    assert table.ratios(row[io.GATHERED]) == [0.6, 0.4]


def test_targets_stand_beside_what_was_reached():
    targets = {row.name: row.target for row in io.rows(REACHED) if row.target}
    assert targets == {
        io.COURSE: "at least 5",
        io.GATHERED: "at least 0.5",
        io.PACKED: "at least 1",
    }


def test_a_packed_file_is_compared_with_webdataset():
    table = Table("", io.rows(REACHED), {})
    (row,) = (row for row in table.rows if row.name == io.PACKED)
    assert table.ratios(row) == [3.0, 1.5]


def test_without_solutions_the_packed_file_is_left_out(monkeypatch, tmp_path):
    monkeypatch.setattr(io, "SOLUTIONS", tmp_path / "02_hardware.py")
    assert io._pack_files() is None


def test_a_plain_read_is_counted_in_records(tmp_path, monkeypatch):
    (tmp_path / "a").write_bytes(b"x" * (10 * io.RECORD))
    times = iter([1.0, 3.0])
    monkeypatch.setattr(io.time, "perf_counter", lambda: next(times))
    assert io.plain_read(tmp_path / "a") == 5.0


def test_every_batch_is_copied_once():
    import numpy as np

    images = np.arange(7).reshape(7, 1)
    sizes, copied = [], []
    for into, labels in io.Copied(images, 3):
        sizes.append(len(labels))
        copied += into[: len(labels), 0].tolist()
    assert (sizes, copied) == ([3, 3, 1], list(range(7)))


def test_a_tiny_run(bench_command, monkeypatch, tmp_path):
    monkeypatch.setattr(io.tf_data_loading, "rate", lambda *_: 7.0)
    monkeypatch.setattr(io.tempfile, "tempdir", str(tmp_path))
    options = ["--rounds", "1", "--images", "60"]
    table = bench_command("io", *options, workers=(0, 1), formats=["files"])
    row = {row.name: row for row in table.rows}
    assert row["tf.data"].values == [7.0]
    assert {"files, in order", "files, shuffled"} <= {name.partition(": ")[2] for name in row}
    assert row[io.PACKED].values[0] > 0
    course = row[io.COURSE]
    best = max(row[f"DataLoader, {n}"].values[0] for n in ("0 workers", "1 worker"))
    assert table.ratios(course) == [pytest.approx(course.values[0] / best)]
    assert list(tmp_path.iterdir()) == []
