"""The stepper: a widget where there is a kernel, one picture of all steps everywhere else."""

import base64

import nbformat
import pytest

from hpml.course import paired
from hpml.trace.holdings import Holdings, Sent
from hpml.trace.stepper import WIDGET, bundles, frame, sentence, stepper

START = (({(0, 0): 1.0}, {(0, 1): 1.0}), ({(1, 0): 1.0}, {(1, 1): 1.0}))
HALF = ({(0, 0): 1.0}, {(0, 1): 1.0, (1, 1): 1.0})
STEPS = ((Sent(0, 1, (0, 1), True), Sent(1, 0, (1,), False)), (Sent(1, 0, (), True),))
SEEN = Holdings(2, (START, (HALF, START[1]), START), STEPS)


@pytest.fixture
def widget():
    return stepper(SEEN)


def test_the_slider_chooses_the_step_whose_picture_is_shown(widget):
    controls, image = widget.children
    play, slider = controls.children
    assert (slider.min, slider.max, play.max) == (1, 2, 2)
    assert image.value == frame(SEEN, 1)
    slider.value = 2
    assert image.value == frame(SEEN, 2)
    slider.value = 1
    assert image.value == frame(SEEN, 1)


def test_a_steps_title_names_its_messages():
    assert sentence(SEEN, 1) == (
        "Step 1: rank 0 sends all parts to rank 1; "
        "rank 1 sends part 1 to rank 0, which never arrives"
    )
    assert sentence(SEEN, 2) == "Step 2: rank 1 sends something to rank 0"


def test_a_page_that_is_kept_has_the_picture_of_all_steps_and_no_widget():
    outputs = [nbformat.v4.new_output("display_data", bundle) for bundle in bundles(SEEN)]
    assert [WIDGET in output.data for output in outputs] == [False, True]
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell("x", outputs=outputs)])
    paired.tidy(notebook)
    (kept,) = notebook.cells[0].outputs
    assert sorted(kept.data) == ["image/png", "text/plain"]
    assert base64.b64decode(kept.data["image/png"]).startswith(b"\x89PNG")


def test_where_there_is_no_message_there_is_one_step_from_start_to_end():
    widget = stepper(Holdings(2, (START, START), ()))
    assert widget.children[0].children[1].max == 1
