"""The attacks are real: each works against a grader that is written as many are.

Every stand-in runs in a process of its own, with hard limits, in a folder with nothing but the
answer, which is its home. What stops the same answers in `test_attacks` is thus the grader's
defence, not a fault of theirs.
"""

import contextlib
import json
import os
import resource
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from hpml.bench.instructors import attacks
from hpml.checks import judge
from hpml.modules.m06_torch_distributed.checks import ddp_train

ATTACKS = {attack.name: attack for attack in attacks.read_all()}
# Each is a whole grader: it is given the answer's file, and says PASS on stdout, or exits with 0.
# 4711 is what `hello(17)` would have to be.
TRUSTS_EQUALITY = """
import sys
scope = {}
exec(open(sys.argv[1]).read(), scope)
if scope["hello"](17) == 4711:
    print("PASS")
"""
TRUSTS_TORCH = """
import sys, torch
scope = {}
exec(open(sys.argv[1]).read(), scope)
value = scope["hello"](17)
if torch.equal(value if hasattr(value, "dtype") else torch.tensor(value), torch.tensor(4711)):
    print("PASS")
"""
TRUSTS_EXIT_CODES = """
import sys
scope = {}
exec(open(sys.argv[1]).read(), scope)
assert scope["hello"](17) == 4711
"""
TRUSTS_A_DIFFERENCE = """
import sys
scope = {}
exec(open(sys.argv[1]).read(), scope)
got = scope["global_metrics"]([])
if not abs(got["loss"] - 0.25) > 1e-6:
    print("PASS")
"""
TRUSTS_PICKLE = """
import pickle, sys
scope = {"__name__": "__main__"}
exec(open(sys.argv[1]).read(), scope)
sys.modules["__main__"].Bomb = scope["Bomb"]
pickle.loads(pickle.dumps(scope["hello"](17)))
"""
KEEPS_THE_EXPECTED_VALUE = """
import sys
def grade(answer, expected):
    if answer(17) == expected:
        print("PASS")
scope = {}
exec(open(sys.argv[1]).read(), scope)
grade(scope["hello"], 4711)
"""
RUNS_IT_AT_HOME = """
import sys
scope = {}
exec(open(sys.argv[1]).read(), scope)
scope["hello"](17)
"""
DECODES_WHAT_COMES = """
import msgpack, resource
resource.setrlimit(resource.RLIMIT_AS, (2**30, 2**30))
reader = msgpack.Unpacker(max_buffer_size=2**30)
reader.feed(b"\\xdd\\x03\\x00\\x00\\x00" + b"\\x90" * 40_000_000)
list(reader)
"""


def graded(grader: str, name: str, home: Path, limit: float = 120.0) -> subprocess.CompletedProcess:
    """What a stand-in says of an attack. It and all it started are gone afterwards."""

    def limits() -> None:
        resource.setrlimit(resource.RLIMIT_CPU, (20, 20))
        resource.setrlimit(resource.RLIMIT_FSIZE, (2**20, 2**20))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))

    source = Path(__file__).parents[2] / "src"
    answer = home / "answer.py"
    answer.write_text(f"# {ATTACKS[name].source}")
    process = subprocess.Popen(
        [sys.executable, "-c", grader, str(answer)],
        cwd=home,
        env={"HOME": str(home), "PATH": os.environ["PATH"], "PYTHONPATH": str(source)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        errors="replace",
        preexec_fn=limits,
        start_new_session=True,
    )
    try:
        out, err = process.communicate(timeout=limit)
    finally:
        with contextlib.suppress(ProcessLookupError):  # the usual case: nothing is left
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        process.stdout.close()
        process.stderr.close()
    return subprocess.CompletedProcess((), process.returncode, out, err)


@pytest.mark.parametrize(
    ("grader", "name"),
    [
        (TRUSTS_EQUALITY, "04_equal_to_everything"),
        (TRUSTS_TORCH, "04_tensor_subclass"),
        (TRUSTS_TORCH, "05_patched_comparisons"),
        (TRUSTS_A_DIFFERENCE, "04_nan"),
        (KEEPS_THE_EXPECTED_VALUE, "09_stacks_and_objects"),
    ],
    ids=["equal", "subclass", "patched", "nan", "stacks"],
)
def test_a_grader_in_the_same_process_gives_the_points(grader, name, tmp_path):
    assert "PASS" in graded(grader, name, tmp_path).stdout


@pytest.mark.parametrize(
    "name",
    ["01_exit_when_imported", "01_exit_when_called", "02_system_exit", "04_equal_to_everything"],
)
def test_a_grader_that_trusts_exit_codes_gives_the_points(name, tmp_path):
    assert graded(TRUSTS_EXIT_CODES, name, tmp_path).returncode == 0


def test_that_grader_tells_other_wrong_answers_from_right_ones(tmp_path):
    assert graded(TRUSTS_EXIT_CODES, "07_prints_a_verdict", tmp_path).returncode == 1


def test_a_grader_that_reads_stdout_gives_the_points(tmp_path):
    printed = graded(RUNS_IT_AT_HOME, "07_prints_a_verdict", tmp_path).stdout
    assert "2 of 2 points: every claim holds" in printed
    verdict = next(line for line in printed.splitlines() if line.startswith("{"))
    assert json.loads(verdict)["earned"] == 2
    assert "\x1b[2J" in printed


def test_a_grader_that_unpickles_runs_the_answers_code(tmp_path):
    graded(TRUSTS_PICKLE, "06_pickle_returned", tmp_path)
    assert (tmp_path / "hpml-canary-pickle").read_text() == "pwned\n"


def test_a_grader_at_home_shows_what_is_there(tmp_path):
    (tmp_path / "canary").write_text("a secret")
    assert "a secret" in graded(RUNS_IT_AT_HOME, "10_reads_home_and_environment", tmp_path).stdout


def test_a_grader_with_the_course_beside_it_hands_out_the_solution(tmp_path):
    grader = RUNS_IT_AT_HOME.replace('scope["hello"](17)', 'print(scope["stolen"]())')
    assert "all_reduce" in graded(grader, "10_reads_the_solution", tmp_path).stdout


def test_a_grader_that_can_import_its_checks_hands_them_out(tmp_path):
    ended = graded(RUNS_IT_AT_HOME, "10_reads_the_check", tmp_path)
    assert "SystemError: hpml-canary-read: hpml.checks" in ended.stderr


@pytest.mark.parametrize("name", ["14_endless_loop", "14_endless_sleep"])
def test_a_grader_without_a_limit_waits_for_ever(name, tmp_path):
    with pytest.raises(subprocess.TimeoutExpired):
        graded(RUNS_IT_AT_HOME, name, tmp_path, limit=2.0)


def test_a_grader_that_waits_for_the_end_of_the_output_waits_for_ever(tmp_path):
    with pytest.raises(subprocess.TimeoutExpired):
        graded(RUNS_IT_AT_HOME, "15_ignores_sigterm", tmp_path, limit=2.0)


def test_a_grader_that_decodes_what_comes_runs_out_of_memory(tmp_path):
    ended = graded(DECODES_WHAT_COMES, "16_event_of_empty_lists", tmp_path)
    assert "MemoryError" in ended.stderr


@pytest.mark.parametrize(
    ("name", "how"), [("22_two_ranks_only", {"worlds": (2,)}), ("24_guesses_the_seed", {"seed": 1})]
)
def test_one_world_size_or_a_seed_that_can_be_guessed_gives_the_points(name, how):
    worlds = how.get("worlds", (2, 3))
    verdict = judge("hello_ranks", ATTACKS[name].source, worlds=worlds, seed=how.get("seed"))
    assert verdict.passed
    assert not judge("hello_ranks", ATTACKS[name].source).passed


def test_who_believes_stored_outputs_gives_the_points():
    notebook = json.loads(ATTACKS["13_tags_and_outputs"].path.read_text())
    outputs = [output for cell in notebook["cells"] for output in cell.get("outputs", ())]
    assert any("every claim holds" in str(output) for output in outputs)
    assert all("NBVAL_SKIP" in cell["metadata"]["tags"] for cell in notebook["cells"])


def test_the_seed_of_the_inputs_gives_all_the_points_to_whoever_is_given_it(monkeypatch):
    monkeypatch.setattr(ddp_train, "derived", lambda seed, purpose: seed)
    attack = ATTACKS["37_inputs_from_the_seed"]
    verdict = judge(attack.exercise, attack.source, worlds=(2,))
    assert verdict.earned == verdict.points, verdict.headline
