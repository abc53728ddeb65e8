"""What the course comes with: of a GPU, of real images; and what lectures conclude from it."""

import json

import pytest

from hpml.record import pictures, plan
from hpml.record.kept import LARGEST, SHIPPED, read

FILES = sorted(SHIPPED.glob("*.json"))


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_record_is_of_a_gpu_and_names_no_folder(path):
    one = read(SHIPPED, path.stem)
    assert one.name in {each.name for each in plan.PLAN}
    assert one.device["kind"] == "cuda"
    assert one.versions["torch"]
    assert not [word for word in ("/root", "/home", "/tmp", "/opt") if word in path.read_text()]


def test_the_files_are_small_and_all_are_used():
    traces = {loop["trace"] for loop in read(SHIPPED, "steps").result["loops"].values()}
    assert {path.name for path in SHIPPED.iterdir()} == traces | {path.name for path in FILES}
    assert max(path.stat().st_size for path in SHIPPED.iterdir()) <= LARGEST


def test_the_network_was_trained_on_the_real_images():
    runs = pictures.trained(read(SHIPPED, "training"))
    assert {run["images"] for run in runs} == {50_000}
    assert not any(run["synthetic"] for run in runs)


def test_what_lectures_conclude_holds():
    roofline, steps, training = (read(SHIPPED, name) for name in ("roofline", "steps", "training"))
    facts = {name: pictures.on_device(trace) for name, trace in pictures.traces(steps).items()}
    for held, *seen in (
        pictures.products(roofline),
        pictures.launches(roofline),
        pictures.reached(training),
    ):
        assert held, seen
    assert pictures.loops(steps, facts).held


def test_the_reference_answers_hold_on_a_gpu():
    answers = read(SHIPPED, "answers").result
    assert len(answers) == 10
    assert "failed" not in json.dumps(answers)
