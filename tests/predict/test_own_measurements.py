"""A learner's own files: a study's CSV, a training run's history, times of all-reduces."""

import json

import pytest

from hpml.allreduce.timing import LIBRARY
from hpml.bench import allreduce_study
from hpml.errors import UserError
from hpml.measure.comm import Fit
from hpml.predict.collectives import Cost, all_reduce_seconds
from hpml.predict.own_measurements import read
from hpml.predict.scaling_fit import Point
from hpml.train.history import Epoch, History


def test_a_table_of_ranks_and_images_per_second(tmp_path):
    file = tmp_path / "scaling.csv"
    file.write_text("ranks,batch,images_per_s\n4,64,390.5\n1,64,100\n4,64,380\n")
    own = read([file])
    assert own.points == (Point(1, 100.0), Point(4, 390.5))  # the fastest of two
    assert own.batch == 64
    assert own.between is None


@pytest.mark.parametrize(
    "text",
    [
        "\ufeffGPUs;Images/sec\r\n1;100,5\r\n4;390\r\n;\r\n",
        " Ranks , Images per second \n1, 100.5\n\n4, 390\n",
        "n_gpus\timg/s\n1\t100.5\n4\t390\n",
    ],
)
def test_a_table_as_spreadsheets_write_it(tmp_path, text):
    file = tmp_path / "sheet.csv"
    file.write_text(text, encoding="utf-8")
    assert read([file]).points == (Point(1, 100.5), Point(4, 390.0))


def test_several_histories_of_training_runs(tmp_path):
    epoch = Epoch(1, 1.0, 0.5, 1.0, 0.5, 0.1, 10.0, 0.0)
    files = []
    for ranks, speed in ((2, 190.0), (1, 100.0)):
        files.append(tmp_path / f"{ranks}" / "history.json")
        epochs = (Epoch(**{**vars(epoch), "images_per_second": speed}),)
        History({}, "data", True, ranks, 1, "cpu", "float32", 10, epochs).write(files[-1])
    assert read(files).points == (Point(1, 100.0), Point(2, 190.0))


def test_times_of_all_reduces_as_the_job_script_writes_them(tmp_path):
    cost = Cost(20e-6, 8 / 10e9)
    network = allreduce_study.Network(4, 1, None, Fit(cost.alpha, cost.beta, 0.0, 0.0), 0.0)
    sizes = (4, 1_000_000, 100_000_000)
    seconds = {
        n: {name: [all_reduce_seconds("ring", n, 4, cost)] for name in ("ring", "tree", LIBRARY)}
        for n in sizes
    }
    allreduce_study.write(tmp_path / "all_reduce.csv", network, seconds, "gloo")
    own = read([tmp_path / "all_reduce.csv"])
    assert own.between.alpha == pytest.approx(cost.alpha, rel=0.01)
    assert own.between.beta == pytest.approx(cost.beta, rel=0.01)
    assert own.points == ()


@pytest.mark.parametrize(
    ("name", "text", "what"),
    [
        ("a.csv", "", "give a CSV with the columns ranks and images_per_s"),
        ("a.csv", "x,y\n1,2\n", r"columns ranks and images_per_s \(found: x, y\)"),
        ("a.csv", "ranks,images_per_s\n2,fast\n", "images_per_s is 'fast'"),
        ("a.csv", "ranks,images_per_s\n2\n", "images_per_s is None"),
        ("a.csv", "ranks,images_per_s\n0,5\n", "ranks is '0'"),
        ("a.csv", "ranks,images_per_s\n2,nan\n", "images_per_s is 'nan'"),
        ("a.csv", "algorithm,ranks,bytes,seconds\nring,4,8,1e-3\n", "no two sizes of the ring"),
        ("a.csv", "algorithm,ranks,bytes,seconds\nring,4,8,2\nring,4,9,1\n", "took no longer"),
        ("a.json", "{", "is not JSON"),
        ("a.json", "[]", "is not a history.json"),
        ("a.json", json.dumps({"world_size": 2}), "is not a history.json"),
    ],
)
def test_what_cannot_be_read_is_named_in_one_line(tmp_path, name, text, what):
    (tmp_path / name).write_text(text)
    with pytest.raises(UserError, match=what) as error:
        read([tmp_path / name])
    assert str(error.value).startswith(f"--fit {tmp_path / name}: ")
    assert "\n" not in str(error.value)


def test_files_that_are_not_there_or_not_text(tmp_path):
    with pytest.raises(UserError, match="No such file"):
        read([tmp_path / "none.csv"])
    (tmp_path / "binary.csv").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(UserError, match="is not text"):
        read([tmp_path / "binary.csv"])


def test_strong_scaling_is_refused(tmp_path):
    file = tmp_path / "strong.csv"
    file.write_text("ranks,batch,images_per_s\n1,64,100\n2,32,180\n")
    with pytest.raises(UserError, match="batches of 32, 64 on a rank: the model scales weakly"):
        read([file])
