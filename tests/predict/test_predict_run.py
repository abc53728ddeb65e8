"""./hpml predict: the table, the curve, measurements of one's own, and one line for bad input."""

import math
from statistics import median

import pytest
import rich

from hpml import cli
from hpml.errors import UserError
from hpml.predict import predict_run, published_predicted, published_scaling
from hpml.predict.predict_run import Asked, sizes
from hpml.predict.scaling_fit import Point

ASKED = Asked(model="resnet50", gpu="v100", per_node=8, network="25gbit")


def run(*arguments: str) -> int:
    with pytest.raises(SystemExit) as exit_:
        cli.main(["predict", *arguments])
    return exit_.value.code


@pytest.fixture(autouse=True)
def a_usual_terminal(monkeypatch):
    """rich asks for the width once, for the console that all of a process share."""
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setattr(rich, "_console", None)


@pytest.fixture
def own(tmp_path):
    file = tmp_path / "own.csv"
    file.write_text("ranks,images_per_s\n1,340\n8,2600\n16,4800\n")
    return file


def test_the_table_has_a_row_for_each_doubling(capsys):
    assert run("--ranks", "8-100") == 0
    shown = capsys.readouterr().out
    rows = [line.split() for line in shown.splitlines() if line[:8].strip().isdigit()]
    assert [int(row[0]) for row in rows] == [8, 16, 32, 64, 100]
    assert "90 % interval" in shown
    assert "One rank: " in shown
    assert "as the published tables leave them" in shown


def test_own_measurements_narrow_the_interval_and_are_drawn(own, tmp_path, capsys):
    picture = tmp_path / "curve.png"
    assert run("--fit", str(own), "--batch", "64", "--out", str(picture)) == 0
    shown = capsys.readouterr().out
    assert "One rank: 340 images/s with 64 a step, as you measured." in shown
    assert "Two constants fitted on 8, 16 ranks of yours" in shown
    assert picture.read_bytes().startswith(b"\x89PNG")
    without = predict_run.predict_run(ASKED).fitted.interval(256)
    with_own = predict_run.predict_run(ASKED, [own]).fitted.interval(256)
    assert with_own.high / with_own.low < without.high / without.low


def test_input_is_a_column_where_it_counts(own, capsys):
    run("--fit", str(own), "--storage", "5000", "--ranks", "64")
    shown = capsys.readouterr().out
    assert "input" in shown
    assert "5,000" in shown


def test_a_measured_network_takes_the_place_of_the_nominal_one(tmp_path):
    file = tmp_path / "all_reduce.csv"
    file.write_text("algorithm,ranks,bytes,seconds\nring,2,4,4e-5\nring,2,100000000,0.1\n")
    made = predict_run.predict_run(ASKED, [file])
    outer = made.fitted.training.network.levels[-1].cost
    assert outer.alpha == pytest.approx(2e-5)
    assert outer.beta == pytest.approx(1e-9, rel=0.01)
    assert any("as measured: α 20 µs, β 8 Gbit/s" in note for note in made.notes)


def test_points_within_a_node_are_said_to_leave_the_network_open(tmp_path):
    file = tmp_path / "own.csv"
    file.write_text("ranks,images_per_s\n1,340\n2,670\n4,1300\n")
    made = predict_run.predict_run(ASKED, [file])
    assert made.notes[-1].startswith("None of them used the network between nodes")


def test_runs_of_one_node_make_it_better_in_the_median():
    """Beyond the node, on all published tables that begin with one."""
    errors, inside = {"none": [], "fitted": []}, []
    for rows in published_scaling.tables().values():
        near = [row for row in rows if row.nodes == 1]
        far = [row for row in rows if row.nodes > 1]
        if published_predicted.why_not(rows) or rows[0].ranks > 1 or len(near) < 2 or not far:
            continue
        training = published_predicted.training(rows)
        points = [Point(row.ranks, published_predicted.images_per_s(row)) for row in near]
        fitted = published_predicted.inside_a_node(training, points)
        for name, one in (("none", published_predicted.commonly(training)), ("fitted", fitted)):
            errors[name] += [
                abs(one.predict(row.ranks).images_per_s / published_predicted.images_per_s(row) - 1)
                for row in far
            ]
        inside += [
            published_predicted.images_per_s(row) in fitted.interval(row.ranks) for row in far
        ]
    assert len(inside) > 100
    assert median(errors["fitted"]) < 0.7 * median(errors["none"])
    assert sum(inside) / len(inside) >= 0.88


def test_images_per_gpu_are_noticed(tmp_path):
    file = tmp_path / "own.csv"
    file.write_text("ranks,images_per_s\n1,340\n8,330\n16,320\n")
    notes = predict_run.predict_run(ASKED, [file]).notes
    assert notes[-2].startswith("On 8 ranks 330 images/s, where one has 340: is that per GPU?")
    assert notes[-1].endswith("Give those of all ranks together.")


def test_a_run_that_does_not_fit_the_others_is_named(own):
    own.write_text(own.read_text() + "32,4900\n")
    notes = predict_run.predict_run(ASKED, [own]).notes
    assert any("on 32 ranks 4,900 images/s were measured" in note for note in notes)
    assert not any("per GPU" in note for note in notes)


def test_a_size_far_beyond_what_was_measured_says_so(own, capsys):
    run("--fit", str(own), "--batch", "64", "--ranks", "64-128")
    assert "128 ranks are 8 times your largest run" in " ".join(capsys.readouterr().out.split())
    run("--fit", str(own), "--batch", "64", "--ranks", "64")
    assert "your largest run" not in capsys.readouterr().out


def test_a_batch_that_nobody_gave_is_said_to_be_the_published_one(tmp_path, capsys):
    file = tmp_path / "own.csv"
    file.write_text("ranks,images_per_s\n1,340\n")
    run("--fit", str(file))
    shown = " ".join(capsys.readouterr().out.split())
    assert "340 images/s, as you measured, with 64 a step, as was published" in shown


def test_what_is_asked_for_reaches_the_training():
    asked = Asked(
        "vgg16", "k80", 4, "10gbit", within="pcie4", images_per_s=35.0, batch=32,
        algorithm="hierarchical", bucket_mib=1.0, overlap=False, fp16=True, loader=50.0,
    )  # fmt: skip
    made = predict_run.predict_run(asked).fitted.training
    assert (made.images_per_s, made.batch, made.algorithm) == (35.0, 32, "hierarchical")
    assert (made.bucket_bytes, made.overlap, made.gradient_share) == (2**20, False, 0.5)
    assert (made.input.each, made.input.shared) == (50.0, math.inf)
    assert made.network.levels[0].ranks == 4


def test_ranks_double_from_the_first_to_the_last():
    assert sizes("8-512") == [8, 16, 32, 64, 128, 256, 512]
    assert sizes("3-20") == [3, 6, 12, 20]
    assert sizes("7") == [7]


@pytest.mark.parametrize("wrong", ["", "8-", "8-4", "0-4", "a-b", "1-999999999", "8 to 16"])
def test_other_forms_of_ranks_are_refused(wrong):
    with pytest.raises(UserError, match="give a form like 8-512"):
        sizes(wrong)


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (["--model", "resnet51"], "no layers of a model 'resnet51'"),
        (["--gpu", "abacus"], "nobody published one abacus with resnet50"),
        (["--gpu", "abacus", "--images-per-s", "9"], "the batch of one rank is not known"),
        (["--network", "fast"], "network 'fast': give a rate"),
        (["--within", "string"], "network 'string': give a rate"),
        (["--algorithm", "gossip"], "all-reduce 'gossip' is not one of"),
        (["--images-per-s", "-3"], "images_per_s is -3"),
        (["--images-per-s", "0", "--batch", "4"], "images_per_s is 0"),
        (["--batch", "4"], "is published with 64 images a step: give --images-per-s for 4 too"),
        (["--gpu", "a100"], "or one of the processors K80, "),
        (["--bucket-mib", "0"], "bucket_bytes is 0"),
        (["--loader", "0"], "input, each, is 0.0 images/s"),
        (["--ranks", "x"], "--ranks 'x'"),
        (["--fit", "/nowhere.csv"], "--fit /nowhere.csv: No such file"),
        (["--out", "/nowhere/x.png"], "--out /nowhere/x.png"),
        (["--out", "x.wrong"], "--out x.wrong"),
    ],
)
def test_bad_input_is_one_line(arguments, line, capsys):
    assert run(*arguments) == 2
    error = capsys.readouterr().err
    assert line in error
    assert error.count("\n") == 1
