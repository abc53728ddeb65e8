"""The frameworks' scripts: what differs between them, how they are started, and that they end.

That each of them trains is seen in the lecture that runs them: tests/test_notebooks.py.
"""

import importlib.util
import json
import os
import time

import psutil
import pytest

from hpml.errors import UserError
from hpml.frameworks import run as running
from hpml.frameworks.run import (
    changes,
    lines_of_code,
    missing,
    run,
    set_tf_config,
    source,
    tf_config,
    told,
)
from hpml.frameworks.task import Clock
from hpml.ranks import flavour

SCRIPTS = sorted(path.stem for path in running.HERE.glob("*_torch.py"))
SCRIPTS += sorted(path.stem for path in running.HERE.glob("*_keras.py"))


@pytest.fixture
def script(tmp_path, monkeypatch):
    """Put a script of one's own in the others' place."""
    monkeypatch.setattr(running, "HERE", tmp_path)

    def put(name: str, text: str) -> str:
        (tmp_path / f"{name}.py").write_text(text)
        return name

    return put


def result(**values) -> str:
    record = {"ranks": 1, "steps": 3, "images_per_second": 2.0, "accuracy": 0.5} | values
    return f"print('result: ' + {json.dumps(json.dumps(record))})\n"


def test_a_script_differs_from_itself_in_nothing():
    assert changes("serial_torch", "serial_torch") == []


def test_what_horovod_asks_for_is_in_the_difference_and_nothing_else_is():
    changed = changes("serial_torch", "horovod_torch")
    assert "+hvd.init()" in changed
    assert "+hvd.broadcast_parameters(model.state_dict(), root_rank=0)" in changed
    assert not any("optimizer.step()" in line for line in changed)
    assert lines_of_code(changed) == sum(line[:1] == "+" for line in changed)


def test_empty_lines_are_not_counted():
    assert lines_of_code(["+a", "+", "-b", "+c"]) == 2


@pytest.mark.parametrize("name", SCRIPTS)
def test_every_script_compiles_and_says_what_it_is(name):
    compile(source(name), name, "exec")
    framework = "PyTorch" if name.endswith("torch") else "Keras"
    assert framework in source(name).splitlines()[0]


def test_the_result_is_what_was_said_last(script):
    name = script("serial_torch", "print('hello')\n" + result(steps=1) + result(steps=7))
    assert run(name).steps == 7


def test_a_script_that_fails_is_told_by_its_error(script):
    name = script("serial_torch", "print('first')\nraise ValueError('no such image')\n")
    with pytest.raises(UserError, match="serial_torch on 1 ranks failed: ValueError: no such imag"):
        run(name)


def test_what_is_left_in_temporary_files_goes_with_the_processes(script):
    name = script(
        "serial_torch",
        "import json, tempfile\n"
        "_, left = tempfile.mkstemp()\n"
        "print('result: ' + json.dumps({'left': left}))\n",
    )
    assert not os.path.exists(told(name)["left"])


def test_a_script_without_a_result_is_told(script):
    with pytest.raises(UserError, match="failed: it said nothing"):
        run(script("serial_torch", "pass"))


@pytest.mark.measures
def test_a_script_that_does_not_end_is_ended_with_its_children(script, tmp_path):
    name = script(
        "serial_torch",
        "import subprocess, sys, time\n"
        "child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(60)'],"
        " start_new_session=True)\n"
        f"open({str(tmp_path / 'child')!r}, 'w').write(str(child.pid))\n"
        "time.sleep(60)\n",
    )
    with pytest.raises(UserError, match="was not done after 2 s"):
        run(name, limit=2)
    child = int((tmp_path / "child").read_text())
    deadline = time.monotonic() + 10
    while psutil.pid_exists(child) and time.monotonic() < deadline:
        if psutil.Process(child).status() == psutil.STATUS_ZOMBIE:
            break
        time.sleep(0.05)
    assert not psutil.pid_exists(child) or psutil.Process(child).status() == "zombie"


def test_workers_are_not_waited_for_when_one_has_failed(script, monkeypatch):
    name = script(
        "multi_worker_torch",
        "import json, os, time\n"
        "if json.loads(os.environ['TF_CONFIG'])['task']['index'] == 1:\n"
        "    raise RuntimeError('lost')\n"
        "time.sleep(60)\n",
    )
    monkeypatch.setattr(running, "missing", lambda script: "")  # this one needs nothing
    with pytest.raises(UserError, match="on 2 ranks failed: RuntimeError: lost"):
        run(name, ranks=2, limit=30)


def test_each_worker_knows_all_and_which_it_is():
    config = json.loads(tf_config(["a:1", "b:2"], rank=1))
    assert config == {
        "cluster": {"worker": ["a:1", "b:2"]},
        "task": {"type": "worker", "index": 1},
    }


@pytest.mark.parametrize(
    ("master", "workers"),
    [
        ("10.77.0.1", ["10.77.0.1:400", "10.77.0.2:401"]),  # on links
        ("127.0.0.1", ["127.0.0.1:400", "127.0.0.1:401"]),
    ],
)
def test_a_rank_finds_all_workers_where_its_network_has_them(monkeypatch, master, workers):
    monkeypatch.setenv("MASTER_ADDR", master)
    monkeypatch.setenv("MASTER_PORT", "400")
    monkeypatch.setenv("TF_CONFIG", "")
    set_tf_config(rank=1, world_size=2)
    assert os.environ["TF_CONFIG"] == tf_config(workers, rank=1)


def test_what_a_script_needs_is_named(monkeypatch):
    def nothing(name):
        return None

    monkeypatch.setattr(importlib.util, "find_spec", nothing)
    monkeypatch.setattr(flavour, "find_spec", nothing)
    assert missing("horovod_keras") == "Horovod is not installed: ./hpml horovod"
    assert missing("horovod_torch") == "Horovod is not installed: ./hpml horovod"
    assert missing("lightning_torch").startswith("lightning is not installed: ")
    assert missing("ddp_torch") == ""
    with pytest.raises(UserError, match="horovod_torch: Horovod is not installed"):
        run("horovod_torch", 2)


def test_the_clock_takes_the_median_of_the_steps_after_the_first(monkeypatch):
    # The first five are long, and so is one later on, when somebody else had the processor.
    moments = iter([10.0, 20.0, 30.0, 40.0, 50.0, 51.0, 52.0, 99.0, 100.0])
    monkeypatch.setattr(time, "perf_counter", lambda: next(moments))
    clock = Clock()
    for _ in range(9):
        clock.step(50)
    assert clock.steps == 9
    assert clock.images_per_second == 50
