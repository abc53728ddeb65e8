"""Every command that README.md and CONTRIBUTING.md name is run by the suite, and ends as they say.

Once: here, in its smallest form, where no other test runs it; else in the test that is named.
"""

import ast
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from hpml import cli
from hpml.paths import CHECKOUT

PAGES = ("README.md", "CONTRIBUTING.md")
SMALL = "--size tiny --epochs 1 --samples 40 --test-samples 20 --batch-size 20 --threads 1"


@dataclass(frozen=True)
class Run:
    """What is typed in place of the page's words, and a text that must then be shown."""

    typed: str
    shows: str


RUN_HERE = {
    "./hpml doctor": Run("./hpml doctor", "The course runs here."),
    "./hpml list": Run("./hpml list", "shard_sampler"),
    "./hpml hint ddp": Run("./hpml hint ddp", "2 more: ./hpml hint ddp"),
    "./hpml course core": Run("./hpml course core", "fits"),
    "./hpml course conclusions": Run("./hpml course conclusions", "07  Hybrid parallelism"),
    "./hpml predict --model resnet50 --gpu v100 --per-node 8 --network 25gbit --ranks 8-512": Run(
        "./hpml predict --model resnet50 --gpu v100 --per-node 8 --network 25gbit --ranks 8-512",
        "512",
    ),
    "./hpml train --help": Run("./hpml train --help", "--lr-rule"),
    "./hpml train --model vit": Run(f"./hpml train --model vit {SMALL}", "1 rank × 1 thread"),
    "torchrun --nproc-per-node 8 -m hpml.train --model vit --tensor 2 --pipeline 2": Run(
        "torchrun --standalone --nproc-per-node 4 -m hpml.train --model vit --tensor 2 "
        f"--pipeline 2 {SMALL}",
        "4 ranks × 1 thread",
    ),
    "./hpml test -k ranks": Run(
        "./hpml test -k imports --collect-only -n 0 -q tests/test_rooms.py", "floors_below"
    ),
}
RUN_BY = {  # a test by its file and the beginning of its name
    "./hpml run": "tests/cli/test_run_command.py::test_a_run_prints_a_line",
    "./hpml lab": "tests/cli/test_run_command.py::test_jupyterlab_opens",
    "./hpml copy FOLDER": "tests/test_shared_installation.py::test_a_copy_is_what_is_written_to",
    "./hpml kernel install": "tests/test_shared_installation.py::test_a_kernel_for_a_hub",
    "./hpml test": "tests/cli/test_commands.py::test_test_runs_pytest",
    "./hpml test --quick": "tests/suite/test_runs.py::test_quick_leaves_out",
    "./hpml test --changed": "tests/suite/test_runs.py::test_changed_plays_what_rests",
    "./hpml test --all": "tests/suite/test_runs.py::test_in_turn_plays_what_is_new",
    "./hpml record": "tests/record/test_whole.py::test_each_measurement_has_a_line",
    "./hpml horovod": "tests/horovod/test_install.py::test_the_command_reports",
    "./hpml data": "tests/data/test_command.py::test_it_downloads_once",
    "./hpml check hello_ranks": "tests/cli/test_learn.py::test_an_exercise_is_checked_by_its_id",
    "./hpml check ddp": "tests/cli/test_learn.py::test_an_exercise_is_checked_by_its_id",
    "./hpml check": "tests/cli/test_learn.py::test_without_arguments_what_changed",
    "./hpml restore ddp": "tests/cli/test_learn.py::test_without_arguments_what_changed",
    "./hpml check exercises/06_torch_distributed.py": (
        "tests/cli/test_learn.py::test_stubs_beside_an_answer"
    ),
    "./hpml answer ddp": "tests/cli/test_learn.py::test_the_courses_answer_comes_after",
    "./hpml watch": "tests/cli/test_learn.py::test_watching_checks_what_was_saved",
    "./hpml restore exercises/06_torch_distributed.py": (
        "tests/course/test_release.py::test_its_commands_work"
    ),
    "./hpml tensorboard FOLDER": "tests/tensorboard/test_command.py::test_it_prints_one_line",
    "torchrun --nproc-per-node 4 -m hpml.train --model vit --shard fsdp": (
        "tests/train/test_run.py::test_under_torchrun_two_processes_share_a_transformer"
    ),
    "./hpml race": "tests/cli/test_race.py::test_a_try_is_run",
    "./hpml race --loader batch": "tests/cli/test_race.py::test_a_try_is_run",
    "./hpml race --from-best --ranks 2": "tests/cli/test_race.py::test_from_the_best_try",
    "./hpml race --show": "tests/cli/test_race.py::test_a_try_is_run",
    "./hpml site check": "tests/cluster/test_site_check.py::test_a_cluster_as_it_is_is_green",
    "./hpml cluster up": "tests/cluster/test_cluster.py::test_down_leaves_nothing",
    "./hpml cluster down": "tests/cluster/test_cluster.py::test_down_leaves_nothing",
    "./hpml submit 06 --nodes 2": "tests/cluster/test_jobs.py::test_training_runs_on_two_nodes",
    "sbatch slurm/06_one_node.slurm": "tests/cluster/test_scripts.py::test_training_leaves",
    "./hpml release": "tests/course/test_release.py::test_the_command_says_where_it_is",
    "./hpml release --answers": (
        "tests/course/test_release.py::test_for_learners_on_their_own_it_has_the_answers"
    ),
    "./hpml grade submissions": "tests/cli/test_grade.py::test_a_class_is_graded",
    "./hpml grade submissions --core": "tests/cli/test_grade.py::test_core_exercises_alone",
    "./hpml class FOLDER": "tests/cli/test_class.py::test_in_a_pipe_it_looks_once",
    "./hpml run-sheet": "tests/course/test_run_sheet.py::test_the_command_writes",
    "./hpml run-sheet --brief": (
        "tests/course/test_run_sheet.py::test_in_brief_each_module_of_the_day_is_one_page"
    ),
    "./hpml course check": "tests/cli/test_learn.py::test_course_check_proves_one_exercise",
    "./hpml course check --page build/wrong_answers.html": (
        "tests/course/test_wrong_page.py::test_the_command_writes_it"
    ),
    "./hpml course check count_messages": (
        "tests/course/test_new_exercise.py::test_what_the_real_course_then_lacks"
    ),
    "./hpml course new 06 count_messages": (
        "tests/course/test_new_exercise.py::test_what_the_real_course_then_lacks"
    ),
    "./hpml build": "tests/course/test_build.py::test_a_second_build",
    "./hpml course new 09 power_and_cooling": (
        "tests/course/test_new_module.py::test_a_new_module_is_built_and_then_an_exercise_of_it"
    ),
    "./hpml build 06 --keep-outputs": "tests/course/test_build.py::test_outputs_can_be_kept",
    "./hpml build 08 09 --keep-outputs": "tests/course/test_build.py::test_outputs_can_be_kept",
    "./hpml build --check": "tests/test_notebooks.py::test_what_is_committed",
    "./hpml bench attacks": "tests/grading/test_attacks.py::test_the_command_fails",
    "./hpml bench grade": "tests/bench/test_grade.py::test_it_grades_the_same_files",
    "./hpml bench check": "tests/bench/test_check.py::test_it_measures_torchrun",
    "./hpml bench flips": "tests/bench/test_flips.py::test_one_right_answer_graded_once",
    "./hpml bench network": "tests/bench/test_network.py::test_links_and_launches",
    "./hpml bench allreduce": "tests/bench/test_allreduce.py::test_every_algorithm_has_its_rows",
    "./hpml bench fusion": "tests/bench/test_fusion.py::test_fusion_needs_fewer_collectives",
    "./hpml bench io": "tests/bench/test_io.py::test_a_tiny_run",
    "./hpml bench predict": "tests/bench/test_predict.py::test_the_command_writes_every_row",
    "./hpml bench shard": "tests/bench/test_shard.py::test_one_way_on_two_ranks_for_real",
    "./hpml bench train": "tests/bench/test_train.py::test_no_seeds_no_full_run",
}
# The words of a test that runs it by others than the page's.
SPELLED = {
    "torchrun --nproc-per-node 4 -m hpml.train --model vit --shard fsdp": (
        "torch.distributed.run hpml.train --model --shard"
    ),
    "sbatch slurm/06_one_node.slurm": "sbatch 06_one_node",
    "./hpml test --quick": "--quick",
    "./hpml test --changed": "--changed",
    "./hpml test --all": "--all",
}


def commands() -> set[str]:
    """Those of the pages: lines of their blocks of code, and code inside a line."""
    found: set[str] = set()
    for page in PAGES:
        text = (CHECKOUT / page).read_text(encoding="utf-8")
        found |= set(re.findall(r"^(?:    )?((?:\./hpml|torchrun|sbatch) [^#\n]*)", text, re.M))
        found |= set(re.findall(r"`((?:\./hpml|torchrun|sbatch) [^`]+)`", text))
    return {" ".join(command.split()) for command in found}


def wanted(command: str) -> list[set[str]]:
    """The words that a test has which runs it: names and options, each with its other spellings."""
    if command in SPELLED:
        return [{word} for word in SPELLED[command].split()]
    _, name, *others = shlex.split(command)
    known = cli.COMMANDS[name]
    names = [{name, *(m.rpartition(".")[2] for m in (known.module, known.instructors))}]
    if known.group:
        names.append({others.pop(0)})
    return [*names, *({word} for word in others if word.startswith("--"))]


def named(body: list[ast.stmt], test: str) -> Iterator[ast.stmt]:
    """A test and, of its file and conftest.py, what it names, fixtures too, and what they name."""
    there: dict[str, ast.stmt] = {}
    for statement in body:
        if isinstance(statement, ast.FunctionDef | ast.ClassDef):
            there[statement.name] = statement
        elif isinstance(statement, ast.Assign):
            there |= {t.id: statement for t in statement.targets if isinstance(t, ast.Name)}
        elif isinstance(statement, ast.Import | ast.ImportFrom):
            there |= {alias.asname or alias.name: statement for alias in statement.names}
    waiting, seen = [test], set()
    while waiting:
        name = waiting.pop()
        if name in seen or name not in there:
            continue
        seen.add(name)
        yield there[name]
        for node in ast.walk(there[name]):
            if isinstance(node, ast.Name | ast.arg):
                waiting.append(node.id if isinstance(node, ast.Name) else node.arg)


def words(statements: Iterator[ast.stmt]) -> set[str]:
    """Words of their texts, but for docstrings, and names of fixtures and imported modules."""
    found: set[str] = set()
    for statement in statements:
        if isinstance(statement, ast.Import | ast.ImportFrom):
            found |= set((getattr(statement, "module", "") or "").split("."))
            found |= {alias.name for alias in statement.names}
            continue
        for node in ast.walk(statement):
            if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
                node.value.value = ""  # a docstring, which comes before its inside
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                found |= set(re.split(r"[\s=]+", node.value))
            elif isinstance(node, ast.arg):
                found.add(node.arg)
    return found


def test_every_command_of_the_pages_is_run_by_some_test_and_no_other_is_listed():
    assert commands() == set(RUN_HERE) | set(RUN_BY)
    assert not set(RUN_HERE) & set(RUN_BY)


@pytest.mark.parametrize("command", RUN_BY)
def test_the_test_that_runs_it_is_there_and_has_its_words(command):
    file, _, beginning = RUN_BY[command].partition("::")
    path = CHECKOUT / file
    sources = [each for each in (path.with_name("conftest.py"), path) if each.exists()]
    body = [s for each in sources for s in ast.parse(each.read_text(encoding="utf-8")).body]
    functions = [each.name for each in body if isinstance(each, ast.FunctionDef)]
    (test,) = [name for name in functions if name.startswith(beginning)]
    there = words(named(body, test))
    assert [each for each in wanted(command) if not each & there] == []


@pytest.mark.parametrize("command", RUN_HERE)
def test_the_command_ends_well_and_shows_what_the_page_says(command, tmp_path):
    program, *rest = shlex.split(RUN_HERE[command].typed)
    module = {"./hpml": "hpml", "torchrun": "torch.distributed.run"}[program]
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    if "train" not in RUN_HERE[command].typed:  # which reads images of the home folder, and no more
        environment["HPML_HOME"] = str(tmp_path)
    ended = subprocess.run(
        [sys.executable, "-m", module, *rest],
        cwd=CHECKOUT,
        env={**environment, "COLUMNS": "200", "OMP_NUM_THREADS": "1"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert RUN_HERE[command].shows in ended.stdout
