"""Publishing results: what a notebook carries, and what is refused."""

import base64
import os
from pathlib import Path

import nbformat
import pytest
from matplotlib.figure import Figure
from nbformat.v4 import new_code_cell, new_notebook

from hpml.course.execute import execute, open_notebook
from hpml.course.instructors.committed import faults
from hpml.publish import (
    CONCLUSION,
    FIGURE,
    RESULT,
    SKIP,
    conclude,
    publish,
    publish_figure,
    rounded,
    skip,
)

CELLS = (
    "from hpml.publish import publish, publish_figure, skip\n"
    "publish('speed', {'1 rank': 812.4, '2 ranks': 1534}, unit='images/s', caption='Faster.')",
    "skip('two nodes', 'no SLURM')",
    "import matplotlib.pyplot as plt\n"
    "figure, axes = plt.subplots()\n"
    "publish_figure('curve', figure, 'It rises.')",
    "plt.get_fignums()",
)


class Deaf:
    def started(self, *_: object) -> None:
        pass

    def ended(self, *_: object) -> None:
        pass


def test_an_executed_notebook_carries_what_was_published(tmp_path: Path):
    path = tmp_path / "n.ipynb"
    nbformat.write(new_notebook(cells=[new_code_cell(cell) for cell in CELLS]), path)
    run = open_notebook(path)
    execute(run, dict(os.environ), Deaf(), log=tmp_path / "log")
    assert run.status == "ran", run.failed
    (numbers,), (skipped,), (figure,), (open_figures,) = (
        cell.outputs for cell in run.notebook.cells
    )
    assert numbers.data[RESULT] == {
        "name": "speed",
        "value": {"1 rank": 812.4, "2 ranks": 1534},
        "unit": "images/s",
        "caption": "Faster.",
    }
    assert numbers.data["text/plain"] == "speed: 1 rank: 812, 2 ranks: 1,534 images/s"
    assert skipped.data[SKIP] == {"what": "two nodes", "why": "no SLURM"}
    assert figure.data[RESULT] == {"name": "curve", "unit": "", "caption": "It rises."}
    assert base64.b64decode(figure.data["image/png"]).startswith(b"\x89PNG")
    assert open_figures.data["text/plain"] == "[]"


def test_what_leads_the_report_is_marked(monkeypatch):
    shown = []
    monkeypatch.setattr("hpml.publish._display", lambda bundle, **_: shown.append(bundle))
    for lead in ({}, {"lead": "3 % off."}):
        publish_figure("curve", Figure(), "It rises.", **lead)
    skip("two nodes", "no SLURM", lead=True)
    plain, leading, skipped = shown
    assert plain["text/plain"] == "[curve] It rises."
    assert leading["text/plain"] == "[curve] It rises. 3 % off."
    assert "lead" not in plain[RESULT]
    assert leading[RESULT]["lead"] == "3 % off."
    assert skipped[SKIP] == {"what": "two nodes", "why": "no SLURM", "lead": True}


def test_a_drawing_is_marked_and_a_photograph_is_not(monkeypatch):
    """What is marked has light and dark exchanged in the dark theme."""
    marks = []
    monkeypatch.setattr("hpml.publish._display", lambda _, metadata: marks.append(metadata))
    drawing, photograph = Figure(), Figure()
    drawing.add_subplot().imshow([[0.0, 1.0]])
    photograph.add_subplot().imshow([[[0.1, 0.2, 0.3]]])
    publish_figure("waits", drawing, "It waits.")
    publish_figure("cat", photograph, "A cat.")
    assert marks == [FIGURE, {}]


def test_a_script_prints_the_text(capsys):
    publish("accuracy", 0.91234, caption="On the test images.")
    skip("two nodes", "no SLURM")
    assert capsys.readouterr().out == "accuracy: 0.912\nSkipped: two nodes: no SLURM\n"


@pytest.mark.parametrize("value", [None, True, [1, 2], {"a": "text"}, {"a": None}])
def test_what_is_no_number_is_refused_by_name(value):
    with pytest.raises(TypeError, match=r"publish 'loss': .* give int or float"):
        publish("loss", value)


@pytest.mark.parametrize("value", [float("nan"), {"a": float("inf")}, {}])
def test_numbers_that_are_none_are_refused(value):
    with pytest.raises(ValueError, match="publish 'loss'"):
        publish("loss", value)


@pytest.mark.parametrize(
    ("value", "shown"),
    [(1534.2, "1,534"), (0.91234, "0.912"), (7, "7"), (12345, "12,345"), (-99.96, "-100"),
     (99.4, "99.4"), (0.00012345, "0.000123"), ("two", "two")],
)  # fmt: skip
def test_numbers_are_rounded_to_three_digits(value, shown):
    assert rounded(value) == shown


def test_a_conclusion_is_shown_where_it_held_and_else_what_was_seen(tmp_path: Path):
    path = tmp_path / "n.ipynb"
    cells = [
        "from hpml.publish import conclude\n"
        f"took = 1\nconclude({held}, f'It took {{took}} s.', f'It took {{took + 1}} s.')"
        for held in ("took < 2", "took > 2")
    ]
    nbformat.write(new_notebook(cells=[new_code_cell(cell) for cell in cells]), path)
    run = open_notebook(path)
    execute(run, dict(os.environ), Deaf(), log=tmp_path / "log")
    assert run.status == "ran", run.failed
    (so,), (not_so,) = (cell.outputs for cell in run.notebook.cells)
    assert so.data["text/markdown"] == "It took 1 s."
    assert so.data[CONCLUSION] == {"held": True, "sentence": "It took 1 s."}
    assert not_so.data["text/markdown"] == "Not seen in this run: It took 2 s."
    assert faults(run.notebook) == ["cell 2 concludes what was not seen: It took 1 s."]


def test_what_is_no_truth_value_is_refused():
    with pytest.raises(TypeError, match="give a bool"):
        conclude(1, "yes", "no")
