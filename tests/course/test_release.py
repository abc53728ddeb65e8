"""A release is the course that a learner needs, works on its own, and gives no solution away."""

import ast
import json
import os
import re
import shutil
import stat
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from zipfile import ZipFile

import nbformat
import pytest
from nbformat.sign import NotebookNotary

from hpml import cli
from hpml.answer import read
from hpml.course import report, schedule
from hpml.course.instructors.release import File, date_of, files, write
from hpml.course.run import DataUsed, plan
from hpml.errors import UserError
from hpml.paths import CHECKOUT

COURSE = schedule.load()
POINTS = sum(exercise.points for module in COURSE.modules for exercise in module.exercises)
EXERCISES = [exercise.id for module in COURSE.modules for exercise in module.exercises]
SHORT = 25  # characters; of a shorter line nobody learns a solution

# Lines of solutions that lectures, job scripts or the library show as well, each seen not to be
# part of what its exercise is about.
ON_PURPOSE = {
    # How a graph and a record of images are read, as the exercises' texts have it
    '"image": tf.io.FixedLenFeature((), tf.string),',
    '"label": tf.io.FixedLenFeature((), tf.int64),',
    "example = tf.io.parse_single_example(record, features)",
    'for node in graph["nodes"]:',
    'nodes = {node["name"]: node for node in graph["nodes"]}',
    'pixels = tf.io.decode_raw(example["image"], tf.uint8)',
    "#SBATCH --cpus-per-task={cpus_per_task}",
    '"model": model.state_dict(),',
    "dist.destroy_process_group()",
    "for parameter in parameters:",
    "for group in self.param_groups",
    "for epoch in range(epochs):",
    "gradient = torch.empty_like(output)",
    "for gradient in gradients:",
    "heads = F.scaled_dot_product_attention(query, key, value)",
    # The lecture on Horovod begins with what it changes in a script; where, is the exercise.
    "hvd.broadcast_optimizer_state(optimizer, root_rank=0)",
    "hvd.broadcast_parameters(model.state_dict(), root_rank=0)",
    "if torch.cuda.is_available():",
    'model.load_state_dict(state["model"])',
    'optimizer.load_state_dict(state["optimizer"])',
    "os.replace(unfinished, path)",
    "ranks = dist.get_world_size()",
    'print(f"epoch {epoch}: loss {losses[-1]:.4f}")',
    # What an exercise of module 08 says in words
    "for percent in range(1, 101):",
    'activations = 2 * tokens * model["width"]',
    'compute = job["batch"] / job["alone"]',
    'for ranks, rate in job["measured"]:',
    'hours = job["images"] / rate / 3600',
    "messages = 2 * (ranks - 1)",
    'return {"loss": math.nan, "accuracy": math.nan, "samples": 0}',
    "torch.cuda.set_device(device)",
    "total = torch.tensor(number)",
    'with open(unfinished, "wb") as file:',
}


def solution_lines() -> dict[str, set[str]]:
    """By exercise, the lines of its solution that its stub does not have."""
    lines: dict[str, set[str]] = {}
    for module in COURSE.modules:
        stubs = (COURSE.root / module.exercise_notebook).with_suffix(".py").read_text()
        for answer in read((COURSE.root / module.solution).with_suffix(".py")):
            parts = re.findall(r"### BEGIN SOLUTION\n(.*?)### END SOLUTION", answer.source, re.S)
            found = {line.strip() for part in parts for line in part.splitlines()}
            lines[answer.exercise] = {
                line for line in found - ON_PURPOSE if len(line) > SHORT and line not in stubs
            }
    return lines


def strings(value: object) -> Iterator[str]:
    """Every text in JSON, pieces of lists together, as a reader sees them."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for key, inner in value.items():
            yield key
            yield from strings(inner)
    elif isinstance(value, list):
        yield "".join(inner for inner in value if isinstance(inner, str))
        for inner in value:
            yield from strings(inner)


def given_away(made: Mapping[str, bytes]) -> dict[str, set[str]]:
    """By exercise, the files that have a line of its solution."""
    found: dict[str, set[str]] = {}
    lines = solution_lines()
    for path, data in made.items():
        text = data.decode("utf-8", "replace")
        if path.endswith((".ipynb", ".json")):
            text += "\n".join(strings(json.loads(text)))
        for exercise, wanted in lines.items():
            if any(line in text for line in wanted):
                found.setdefault(exercise, set()).add(path)
    return found


def run(released: Path, *arguments: str, home: Path) -> subprocess.CompletedProcess[str]:
    """A command in the release, which is all there is of the project."""
    environment = {**os.environ, "PYTHONPATH": str(released / "src"), "HPML_HOME": str(home)}
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=released,
        env={**environment, "COLUMNS": "200"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=120,
    )


def test_there_are_solution_lines_to_look_for():
    lines = solution_lines()
    assert sorted(lines) == sorted(EXERCISES)
    # hello_ranks' whole solution is what the lecture shows just before
    assert {exercise for exercise, found in lines.items() if len(found) < 3} == {"hello_ranks"}


def test_no_file_has_a_line_of_a_solution(made):
    assert given_away({path: file.data for path, file in made.items()}) == {}


def test_the_archive_and_the_folder_are_what_was_made(made, tmp_path):
    released = write(made, tmp_path)[0]
    folder = {p.relative_to(released).as_posix() for p in released.rglob("*") if p.is_file()}
    assert folder == made.keys()
    # all(…), since pytest would compare megabytes line by line
    assert all((released / path).read_bytes() == file.data for path, file in made.items())
    with ZipFile(released.parent / "hpml.zip") as archive:
        assert archive.namelist() == sorted(f"hpml/{path}" for path in made)
        assert given_away({name: archive.read(name) for name in archive.namelist()}) == {}
        assert all(archive.read(f"hpml/{path}") == file.data for path, file in made.items())
        modes = {name: archive.getinfo(name).external_attr >> 16 for name in archive.namelist()}
    assert stat.filemode(modes["hpml/hpml"]) == "-rwxr-xr-x"
    assert stat.filemode(modes["hpml/README.md"]) == "-rw-r--r--"
    assert stat.S_IMODE((released / "hpml").stat().st_mode) == 0o755


def test_notebooks_come_without_outputs_and_jupyterlab_trusts_what_one_runs_in_them(made) -> None:
    for path, file in made.items():
        if path.endswith(".ipynb"):
            notebook = nbformat.reads(file.data.decode(), as_version=4)
            code = [cell for cell in notebook.cells if cell.cell_type == "code"]
            assert all(not cell.outputs and not cell.execution_count for cell in code), path
            # It signs a notebook, as it saves it, whose cells are trusted or have no outputs.
            assert NotebookNotary(db_file=":memory:", secret=b"x").check_cells(notebook), path


@pytest.mark.parametrize("ending", [".ipynb", ".py"])
def test_a_solution_that_is_copied_in_would_be_noticed(ending):
    for module in COURSE.modules:
        path = (COURSE.root / module.solution).with_suffix(ending)
        found = given_away({f"notebooks/mine{ending}": path.read_bytes()})
        expected = {exercise.id for exercise in module.exercises} - {"hello_ranks"}
        assert expected <= set(found)  # two exercises may have a line in common


def test_a_solution_in_an_output_would_be_noticed():
    line = min(solution_lines()["ddp"])
    output = {"output_type": "stream", "text": ["some\n", f"    {line[:9]}", f"{line[9:]}\n"]}
    notebook = json.dumps({"nbformat": 4, "cells": [{"cell_type": "code", "outputs": [output]}]})
    assert given_away({"notebooks/a.ipynb": notebook.encode()}) == {"ddp": {"notebooks/a.ipynb"}}


def test_no_file_is_one_of_the_solutions_or_tests(made):
    kept_back = {
        path.read_bytes()
        for folder in ("solutions", "tests")
        for path in (CHECKOUT / folder).rglob("*")
        if path.is_file() and path.stat().st_size
    }
    assert len(kept_back) > 100
    assert [path for path, file in made.items() if file.data in kept_back] == []
    folders = {path.split("/")[0] for path in made}
    assert not folders & {"solutions", "tests", ".git", ".ci", "build", ".hpml"}
    aside = ("grading", "grade_array", "wrong_", "attacks")
    assert not [path for path in made if any(word in path for word in aside)]


def test_what_was_tried_out_in_the_checkout_does_not_go_along(made, tmp_path):
    root = tmp_path / "checkout"
    shutil.copytree(
        CHECKOUT, root, ignore=shutil.ignore_patterns(".git", ".venv", ".hpml", "build")
    )
    solved = (root / "solutions" / "06_torch_distributed.ipynb").read_bytes()
    (root / "exercises" / "06_torch_distributed.ipynb").write_bytes(solved)
    for name in ("exercises/mine.py", "slurm/slurm-7.out", "src/hpml/ddp.py.orig", "notes.md"):
        (root / name).write_bytes(solved)
    assert files(schedule.load(root / "course.toml")) == made


def test_a_release_is_the_same_every_time(made, tmp_path):
    first = write(made, tmp_path / "first")[1].read_bytes()
    os.utime(CHECKOUT / "README.md")
    assert write(files(COURSE), tmp_path / "second")[1].read_bytes() == first


def test_its_files_are_as_old_as_the_last_commit(tmp_path):
    assert date_of(tmp_path) == (1980, 1, 1, 0, 0, 0)
    told = {"GIT_COMMITTER_DATE": "2025-03-04T05:06:08+01:00", "PATH": os.environ["PATH"]}
    who = ("-c", "user.name=a", "-c", "user.email=a@b.org")
    for words in (("init", "-q"), (*who, "commit", "-q", "--allow-empty", "-m", "one")):
        subprocess.run(["git", "-C", tmp_path, *words], check=True, env=told)
    assert date_of(tmp_path) == (2025, 3, 4, 5, 6, 8)


def test_its_readme_begins_for_a_learner(made):
    page = made["README.md"].data.decode()
    commands = re.findall(r"^ *\./hpml (\w+)", page, re.MULTILINE)
    assert commands[:3] == ["doctor", "lab", "check"]
    assert "release -->" not in page
    assert "only in a release" not in page


def test_a_release_takes_the_place_of_an_earlier_one_and_of_nothing_else(made, tmp_path):
    few = {"README.md": made["README.md"], "old/file": File(b"")}
    folder, _ = write(few, tmp_path / "out")
    folder, archive = write(made, tmp_path / "out")
    assert not (folder / "old").exists()
    assert archive.stat().st_size > 100_000
    theirs = tmp_path / "theirs"
    (theirs / "hpml").mkdir(parents=True)
    with pytest.raises(UserError, match="theirs has files in it but no release: name a new folder"):
        write(made, theirs)
    (tmp_path / "file").touch()
    with pytest.raises(UserError, match="file is a file: name a folder"):
        write(made, tmp_path / "file")
    with pytest.raises(UserError, match=r"/proc/self/out: .*: name a folder to write to"):
        write(made, Path("/proc/self/out"))


def test_a_file_that_is_missing_is_said(tmp_path):
    shutil.copy(CHECKOUT / "course.toml", tmp_path)
    with pytest.raises(UserError, match=r"\.gitignore: No such file.*restore it from the repo"):
        files(schedule.load(tmp_path / "course.toml"))


def test_nothing_in_it_imports_what_was_left_out(made):
    there = {path for path in made if path.startswith("src/")}
    imported = _imported(made[path].data for path in there if path.endswith(".py"))
    modules = {name for name in imported if (CHECKOUT / "src" / name.replace(".", "/")).is_dir()}
    modules |= {name for name in imported if _source(name) and (CHECKOUT / _source(name)).is_file()}
    assert len(modules) > 50
    assert not [
        name
        for name in modules
        if _source(name) not in there
        and f"src/{name.replace('.', '/')}/__init__.py" not in there
        and not any(path.startswith(f"src/{name.replace('.', '/')}/") for path in there)
    ]


def test_nothing_in_it_is_there_only_for_what_was_left_out(made):
    sources = [path for path in (CHECKOUT / "src").rglob("*.py") if "egg-info" not in path.parts]
    left = [path for path in sources if path.relative_to(CHECKOUT).as_posix() not in made]
    theirs = _imported(path.read_bytes() for path in left)
    ours = _imported(file.data for path, file in made.items() if path.endswith(".py"))
    ours |= {f"hpml.cli.{command.module}" for command in cli.COMMANDS.values()}
    assert sorted(name for name in theirs - ours if _source(name) in made) == []


def _imported(sources):
    """The modules of the library that these sources import, and names that may be some."""
    found = set()
    for source in sources:
        for node in ast.walk(ast.parse(source)):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("hpml"):
                found.add(node.module)
                found |= {f"{node.module}.{name.name}" for name in node.names}
            elif isinstance(node, ast.Import):
                found |= {name.name for name in node.names if name.name.startswith("hpml")}
    return found


def _source(module: str) -> str:
    return f"src/{module.replace('.', '/')}.py"


def test_its_page_leads_nowhere_that_is_not_there(made):
    page = made["README.md"].data.decode()
    links = re.findall(r"\]\(([^)#]+)\)", page)
    assert len(links) >= 5
    assert [link for link in links if link not in made] == []
    assert not re.search(r"solutions/|tests/|not in a release|instructor", page)
    commands = set(re.findall(r"\./hpml (\w+)", page))
    assert {"doctor", "lab", "check", "list"} <= commands
    left = {
        name
        for name, command in cli.COMMANDS.items()
        if f"src/hpml/cli/{command.module}.py" not in made
    }
    assert left >= {"build", "course", "test", "release"}
    assert commands & left == set()


def test_for_learners_on_their_own_it_has_the_answers_and_nothing_else(made, tmp_path, capsys):
    with pytest.raises(SystemExit) as ended:
        cli.main(["release", "--answers", "--out", str(tmp_path)])
    assert ended.value.code == 0
    assert "hand this to no class with marks" in capsys.readouterr().out
    folder = tmp_path / "hpml"
    there = {p.relative_to(folder).as_posix() for p in folder.rglob("*") if p.is_file()}
    scripts = [module.solution.with_suffix(".py").as_posix() for module in COURSE.modules]
    assert sorted(there - made.keys()) == sorted(scripts)
    assert all((folder / path).read_bytes() == file.data for path, file in made.items())
    asked = run(folder, "-m", "hpml", "answer", "hello_ranks", home=tmp_path / "home")
    assert "3 hints are left" in asked.stderr  # and no word of answers that are not there


def test_its_commands_work_without_the_rest_of_the_project(released, tmp_path):
    def said(*arguments: str, code: int = 0) -> str:
        ended = run(released, "-m", "hpml", *arguments, home=tmp_path / "home")
        assert ended.returncode == code, ended.stdout + ended.stderr
        return ended.stdout + ended.stderr

    where = run(released, "-c", "import hpml; print(hpml.__file__)", home=tmp_path).stdout
    assert where.strip() == str(released / "src" / "hpml" / "__init__.py")
    assert f"0 of {POINTS} points" in said("list")
    assert "hello_ranks: not written yet" in said(
        "check", "exercises/00_your_machine.ipynb", code=1
    )
    answer = tmp_path / "right.py"
    solution = COURSE.root / "solutions/00_your_machine.py"
    (right,) = [each for each in read(solution) if each.exercise == "hello_ranks"]
    answer.write_text(f"# %%\n# {right.source}")
    assert "2 of 2" in said("check", str(answer))
    assert "handed out without its answers" in said("answer", "hello_ranks", code=2)
    assert f"2 of {POINTS} points" in said("list")
    notebook = released / "exercises/00_your_machine.py"
    original = notebook.read_text()
    notebook.write_text("mine")
    kept = notebook.with_name("00_your_machine.mine-1.py")
    assert kept.name in said("restore", "exercises/00_your_machine.py")
    assert (notebook.read_text(), kept.read_text()) == (original, "mine")
    kept.unlink()  # others look at this release, too
    assert "sbatch" in said("submit", "06", "--nodes", "2", "--dry-run")
    assert json.loads(said("doctor", "--json"))["can_run"]
    assert re.match(r"\d+\.\d+", said("lab", "--", "--version"))
    listed = said("--help")
    assert "│ check " in listed
    assert not re.search(r"│ (build|course|test|release|grade) ", listed)
    benchmarks = said("bench", "--help")
    assert "│ fusion " in benchmarks
    assert not re.search(r"│ (attacks|grade) ", benchmarks)
    assert said("build", code=2) == "hpml: No such command 'build': ./hpml --help says more\n"


def test_a_run_in_it_is_of_the_lectures_and_can_be_all_well(released, tmp_path):
    planned = plan(schedule.load(released / "course.toml"), (), DataUsed(tmp_path, "images", False))
    assert [set(module.notebooks) for module in planned.modules] == [{"lecture"}] * len(
        COURSE.modules
    )
    for notebook in planned.notebooks:
        for cell in notebook.cells:
            cell.status = "ran"
    front = report.write(planned, (), tmp_path)
    found = report.collect(planned)
    assert report.all_well(planned, found)
    page = front.read_text()
    assert "not in a release" in page
    pages = sorted(tmp_path.glob("*.html"))
    assert len(pages) == 1 + len(COURSE.modules)
    linked = {link for each in pages for link in re.findall(r'href="(\w+\.html)', each.read_text())}
    assert linked == {each.name for each in pages}
    planned.notebooks[0].cells[0].status = "failed"
    assert not report.all_well(planned, found)


def test_the_command_says_where_it_is(tmp_path, capsys):
    with pytest.raises(SystemExit) as ended:
        cli.main(["release", "--out", str(tmp_path / "out")])
    assert ended.value.code == 0
    first, second = capsys.readouterr().out.splitlines()
    assert first.startswith(f"{tmp_path}/out/hpml: ")
    assert second.startswith(f"{tmp_path}/out/hpml.zip: the same in ")
