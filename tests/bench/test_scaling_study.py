"""What a job of a scaling study leaves behind."""

import csv
import json

import pytest

from hpml.bench import scaling_study
from hpml.bench.scaling_study import waiting
from hpml.errors import UserError
from hpml.predict.model_layers import Layer
from hpml.ranks import launch


@pytest.mark.parametrize("wait", [[], ["--wait", "0.0001"]])
def test_each_size_joins_the_study_in_its_folder(tmp_path, wait):
    def drive(options):
        from hpml.bench import scaling_study

        scaling_study.PING_PONG = (4, 256, 100_000)
        return scaling_study.main(options)

    options = ["--out", str(tmp_path), "--batch", "2", "--steps", "2", "--widths", "8,8,8"]
    options += ["--threads", "1", *wait]
    for ranks in (1, 2):
        evidence = launch(drive, ranks, inputs=[options] * ranks)
        assert list(evidence.values) == [0] * ranks, evidence.diagnosis
    assert f"{ranks} ranks on 1 node: " in evidence.ranks[0].stdout
    assert evidence.ranks[1].stdout == ""
    with (tmp_path / "scaling.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [(row["ranks"], row["use"]) for row in rows] == [("1", "alone"), ("2", "fitted")]
    assert (tmp_path / "scaling.png").read_bytes().startswith(b"\x89PNG")
    assert json.loads((tmp_path / "2.json").read_text())["waited"] == bool(wait)


@pytest.mark.measures
def test_a_study_on_links_has_all_its_sizes():
    options = "--wait 0.0001 --batch 2 --steps 1 --threads 1 --widths 8,8,8"
    try:
        sizes = scaling_study.on_links((1, 2), "100mbit", options)
    except UserError as error:
        if "no network can be emulated here" not in str(error):
            raise
        pytest.skip(str(error))
    assert [(size.ranks, size.nodes, size.waited) for size in sizes] == [(1, 1, True), (2, 1, True)]
    # Seconds per byte: 8e-8 by the link, whose burst lets small messages through at once
    assert sizes[1].within[1] > 8e-9


def test_another_batch_is_another_study(tmp_path, capsys):
    options = ["--out", str(tmp_path), "--steps", "1", "--widths", "8,8,8", "--threads", "1"]
    assert scaling_study.main([*options, "--batch", "2"]) == 0
    (tmp_path / "1.json").rename(tmp_path / "3.json")
    assert scaling_study.main([*options, "--batch", "4"]) == 2
    assert "differ in batch" in capsys.readouterr().err


def test_layers_that_wait_share_the_seconds_by_their_flop_and_have_the_same_gradients():
    layers = [Layer("a", 3.0, 400, 0), Layer("b", 1.0, 40, 0), Layer("norm", 0.0, 0, 0)]
    network = waiting(layers, 1.2)
    assert [one.seconds for one in network] == [
        pytest.approx((0.3, 0.6)),
        pytest.approx((0.1, 0.2)),
        (0.0, 0.0),
    ]
    assert [one.weight.numel() for one in network] == [100, 10, 1]
