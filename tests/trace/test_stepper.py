"""The stepper: a widget where there is a kernel, one picture of all steps everywhere else."""

import base64

import nbformat
import pytest

from hpml.course.instructors import paired
from hpml.trace.holdings import Holdings, Sent
from hpml.trace.stepper import WIDGET, bundles, frame, sentence, stepper

START = (({(0, 0): 1.0}, {(0, 1): 1.0}), ({(1, 0): 1.0}, {(1, 1): 1.0}))
HALF = ({(0, 0): 1.0}, {(0, 1): 1.0, (1, 1): 1.0})
STEPS = ((Sent(0, 1, (0, 1), True), Sent(1, 0, (1,), False)), (Sent(1, 0, (), True),))
SEEN = Holdings(2, (START, (HALF, START[1]), START), STEPS)


@pytest.fixture
def widget():
    return stepper(SEEN)


def test_the_slider_chooses_the_step_whose_sentence_and_picture_are_shown(widget):
    controls, text, image = widget.children
    slider = controls.children[2]
    assert (slider.min, slider.max) == (1, 2)
    for step in (1, 2, 1):
        slider.value = step
        assert (text.value, image.value) == (sentence(SEEN, step), frame(SEEN, step))


def test_the_buttons_go_to_the_step_before_and_after_and_end_where_the_steps_do(widget):
    back, onward, slider = widget.children[0].children
    assert (back.disabled, onward.disabled) == (True, False)
    onward.click()
    assert slider.value == 2
    assert (back.disabled, onward.disabled) == (False, True)
    back.click()
    assert slider.value == 1


def test_a_steps_sentence_names_its_messages():
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
    assert [control.disabled for control in widget.children[0].children[:2]] == [True, True]
