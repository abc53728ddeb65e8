"""./hpml bench predict: every row is shown, misses in full, and links for real but short."""

import dataclasses
import io
import json

import pytest
from rich.console import Console

from hpml import cli
from hpml.bench import predict, predict_links
from hpml.errors import UserError
from hpml.predict.published_foretold import foretell
from hpml.predict.scaling import Prediction, Step

NAMES = ("azure-v100-resnet50-tcp", "daint-resnet50-mpi")
TABLES = [foretell(name) for name in NAMES]


def measured(seconds: float, exposed: float) -> predict_links.Measured:
    return predict_links.Measured("m", "1gbit", seconds, Prediction(2, 1, Step(1, exposed, 0, 0)))


def test_every_row_is_shown_and_misses_have_a_line():
    result = predict.Predicted(TABLES, {"other": "a reason"}, None, {"machine": "this"})
    console = Console(file=io.StringIO(), width=150)
    result.show(console)
    shown = console.file.getvalue()
    for table in TABLES:
        for row in table.rows:
            kind = "fitted" if row.fitted else "foretold"
            cells = [table.name, str(row.row.ranks), kind, f"{row.published:,.0f}"]
            cells += [f"{row.foretold:,.0f}", f"{row.error:+.1%}"]
            assert cells in [line.split() for line in shown.splitlines()]
    for table in TABLES:
        assert (f"row): {table.name}:" in shown) == (not table.met)
    assert "not foretold: other: a reason" in shown
    assert "machine: this" in shown


def test_links_are_counted_with_and_without_steps_in_which_nothing_shows():
    links = [measured(1.0, 0.0), measured(1.0, 0.0), measured(2.0, 0.5)]
    assert [one.shows for one in links] == [False, False, True]
    said = predict.Predicted(TABLES, {}, links, {}).sentences()
    assert said[-2] == "links: 0.0% in the median of 3 steps (target 15%)"
    assert said[-1] == "links: 25.0% in the median of the 1 steps in which communication shows"


def test_the_command_writes_every_row(tmp_path, capsys):
    file = tmp_path / "predict.json"
    with pytest.raises(SystemExit) as ended:
        cli.main(["bench", "predict", "--no-links", "--json", str(file)])
    assert ended.value.code == 0
    content = json.loads(file.read_text())
    named = [row for row in content["rows"] if row["table"] == NAMES[0]]
    assert [row["ranks"] for row in named] == [row.row.ranks for row in TABLES[0].rows]
    assert content["links"] == []
    shown = " ".join(capsys.readouterr().out.split())
    assert content["sentences"][-1] in shown


def test_steps_on_links_for_real(monkeypatch):
    monkeypatch.setattr(predict_links, "MODELS", {"resnet50": 0.05})
    monkeypatch.setattr(predict_links, "STEPS", 2)
    monkeypatch.setattr(predict_links, "SHRUNK", {"100mbit": 1 / 200})
    alone, two = predict_links.measure(["100mbit"], [1, 2], report=lambda line: None)
    assert alone.foretold.step.seconds == pytest.approx(0.05)
    assert alone.foretold.step.exposed == 0
    # Bytes that the link lets through in no less time: 2 (2-1)/2 · n, of which nothing is hidden
    # beyond backward.
    assert two.foretold.step.exposed > 0
    assert min(alone.seconds, two.seconds) >= 0.05
    assert "resnet50, 100 Mbit/s, 2 ranks: " in str(two)


def test_without_a_network_there_is_nothing_to_measure(monkeypatch):
    launch = predict_links.launch

    def without(*arguments, link=None, **options):
        evidence = launch(*arguments, **options)
        return dataclasses.replace(evidence, no_link="namespaces are off")

    monkeypatch.setattr(predict_links, "launch", without)
    with pytest.raises(UserError, match="no network can be emulated here: namespaces are off"):
        predict_links.measure(["10gbit"], [1], report=lambda line: None)
