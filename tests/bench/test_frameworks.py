"""./hpml bench frameworks: its arithmetic, what it refuses, and the same step in each framework."""

import dataclasses
import importlib
import importlib.util

import numpy as np
import pytest

from hpml.bench import frameworks
from hpml.bench.frameworks import EAGER, FORWARD, WAYS, Way, break_even, rows, same_results
from hpml.bench.table import Table
from hpml.errors import UserError
from hpml.frameworks import one_step, onnx_export
from hpml.frameworks.one_step_process import FIRST, Started

COMPILED, RUNTIME = "a step, torch.compile", "forward, ONNX Runtime"
SECONDS = {EAGER: [0.4, 0.2], COMPILED: [0.2, 0.2], FORWARD: [0.1, 0.1], RUNTIME: [0.2, 0.1]}


@pytest.fixture
def given():
    return one_step.made(4, widths=(8, 8))


@pytest.fixture
def started(given):
    moved = {name: given.weights[name] + 0.1 for name in given.changed}
    logits = np.array([[1.0, -2.0]])
    return {
        EAGER: Started(1.3, [2.3, 2.2, 2.1], moved),
        COMPILED: Started(21.2, [2.3, 2.2, 2.1], moved),
        FORWARD: Started(0.1, logits=logits),
        RUNTIME: Started(3.0, logits=logits),
    }


def test_each_way_is_compared_with_eager_of_the_same_round(started):
    table = Table("", rows(started, SECONDS, 8), {})
    row = {row.name: row for row in table.rows}
    assert row[EAGER].values == [20.0, 40.0]
    assert table.ratios(row[COMPILED]) == [2.0, 1.0]
    assert table.ratios(row[RUNTIME]) == [0.5, 1.0]
    assert table.ratios(row[FORWARD]) == []


def test_a_usual_step_is_taken_off_the_seconds_to_prepare(started):
    row = {row.name: row for row in rows(started, SECONDS, 8)}
    (seconds,) = row[f"{COMPILED}: to prepare"].values
    assert seconds == pytest.approx(21.0)
    assert row[f"{FORWARD}: to prepare"].values == [0.0]


def test_compiling_pays_after_the_steps_that_make_up_for_it(started):
    # 21.0 s instead of 1.0 s; then 0.3 s become 0.2 s.
    assert break_even(started, SECONDS) == (
        f"{COMPILED}: after 200 times; {RUNTIME}: never, it is not faster"
    )
    quick = {**started, COMPILED: dataclasses.replace(started[COMPILED], prepared=0.5)}
    assert break_even(quick, SECONDS).startswith(f"{COMPILED}: at once")


def test_the_same_results_are_described(started, given):
    said = same_results(started, given)
    assert "losses of the first 3 steps 0e+00" in said


@pytest.mark.parametrize(
    ("name", "change", "what"),
    [
        (COMPILED, {"losses": [2.3, 2.2, 2.11]}, "losses"),
        (COMPILED, {"losses": [2.3, 2.2, float("nan")]}, "losses"),
        (RUNTIME, {"logits": np.array([[1.0, -2.1]])}, "logits"),
    ],
)
def test_other_results_are_refused(started, given, name, change, what):
    started[name] = dataclasses.replace(started[name], **change)
    with pytest.raises(UserError, match=f"{name}: {what} differ"):
        same_results(started, given)


def test_weights_are_measured_by_how_far_they_moved(started, given):
    weights = dict(started[COMPILED].weights)
    weights["head.weight"] = weights["head.weight"] + 0.01  # a tenth of the way
    started[COMPILED] = dataclasses.replace(started[COMPILED], weights=weights)
    with pytest.raises(UserError, match=r"weights differ by 1\.0e-01"):
        same_results(started, given)


def test_what_is_given_is_read_as_it_was_written(given, tmp_path):
    given.write(tmp_path / "given.npz")
    found = one_step.read(tmp_path / "given.npz")
    assert found.learned == given.learned
    assert found.weights.keys() == given.weights.keys()
    np.testing.assert_array_equal(found.images, given.images)
    assert found.stages == 2


def started_by(function: str, given, trains: bool) -> Started:
    module, _, name = function.partition(".")
    running = getattr(importlib.import_module(f"hpml.frameworks.{module}"), name)(given)
    if not trains:
        return Started(0.0, logits=running.forward())
    return Started(0.0, [running.step() for _ in range(FIRST)], running.weights())


def test_pytorchs_step_is_that_of_its_optimizer(given):
    import torch
    from torch.nn.functional import cross_entropy

    network = one_step.torch_network(given)
    learned = [p for p in network.parameters() if p.requires_grad]
    optimizer = torch.optim.SGD(learned, one_step.LEARNING_RATE, one_step.MOMENTUM)
    losses = []
    for _ in range(FIRST):
        optimizer.zero_grad()
        loss = cross_entropy(network(torch.from_numpy(given.images)), torch.tensor(given.labels))
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    found = started_by("one_step_torch.eager", given, True)
    assert found.losses == pytest.approx(losses, rel=1e-5)
    head = network.head.weight.detach().numpy()
    np.testing.assert_allclose(found.weights["head.weight"], head, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("name", ["a step, TensorFlow eager", "a step, tf.function"])
def test_tensorflow_comes_to_pytorchs_losses_and_weights(given, name):
    pytest.importorskip("tensorflow")
    (way,) = (way for way in WAYS if way.name == name)
    eager = started_by("one_step_torch.eager", given, True)
    same_results({EAGER: eager, name: started_by(way.function, given, True)}, given)
    assert eager.losses[0] != eager.losses[-1]
    assert "stages.0.down.norm.running_var" in eager.weights


def test_runtimes_predict_as_pytorch_does(given):
    found = {FORWARD: started_by("one_step_torch.eager", given, False)}
    for way in WAYS:
        if way.name in ("forward, tf.function", RUNTIME) and importlib.util.find_spec(way.needs):
            found[way.name] = started_by(way.function, given, False)
    same_results(found, given)


def test_a_tiny_run(tmp_path, monkeypatch):
    monkeypatch.setattr(frameworks.tempfile, "tempdir", str(tmp_path))
    ways = [
        Way(EAGER, "one_step_torch.eager"),
        Way("a step, none", "no_such_module.eager"),
        Way("a step, other", "one_step_torch.eager", needs="no_such_package"),
        Way(FORWARD, "one_step_torch.eager", trains=False),
    ]
    if not onnx_export.missing():
        ways.append(Way(RUNTIME, "one_step_onnx.runtime", False, "onnxruntime"))
    reported = []
    table = frameworks.bench(1, 2, 1, (8,), ways, reported.append)
    names = [row.name for row in table.rows]
    measured = [way.name for way in ways if way.name not in ("a step, none", "a step, other")]
    assert names == [*measured, *(f"{name}: to prepare" for name in measured)]
    assert all(row.values[0] > 0 for row in table.rows if row.unit == "images/s")
    assert "No module named" in table.conditions["a step, none"]
    assert table.conditions["a step, other"].endswith("pip install no_such_package")
    assert reported[-1] == "round 1 of 1"
    assert list(tmp_path.iterdir()) == []


def test_without_a_compiler_torch_compile_is_left_out_with_the_remedy(monkeypatch):
    monkeypatch.setenv("CXX", "no-such-compiler")
    table = frameworks.bench(1, 2, 1, (8,), WAYS[:2], lambda _: None)
    assert [row.name for row in table.rows] == [EAGER, f"{EAGER}: to prepare"]
    assert "no C++ compiler: apt install g++" in table.conditions[COMPILED]


def test_pytorchs_own_failure_is_an_error(monkeypatch):
    broken = Way(EAGER, "no_such_module.eager")
    with pytest.raises(UserError, match="No module named"):
        frameworks.bench(1, 2, 1, (8,), [broken], lambda _: None)
