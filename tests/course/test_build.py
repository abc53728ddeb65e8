"""What `./hpml build` makes, that it makes the same twice, and that --check misses nothing."""

import dataclasses
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from hpml import cli
from hpml.course import schedule
from hpml.course.instructors import build, where_next
from hpml.course.instructors.paired import read_script
from hpml.course.schedule import Course
from hpml.errors import UserError

LECTURE = "notebooks/03_rings.ipynb"
SOLUTION = "solutions/03_rings.ipynb"
CHECKS = "src/hpml/modules/m03_rings/checks"
EXERCISE = "exercises/03_rings.ipynb"


def content(course: Course, path: str) -> dict[str, Any]:
    return json.loads((course.root / path).read_text())


def cells(course: Course, path: str) -> dict[str, dict[str, Any]]:
    return {cell["id"]: cell for cell in content(course, path)["cells"]}


def source(cell: dict[str, Any]) -> str:
    return "".join(cell["source"])


def files(root: Path) -> dict[str, bytes]:
    folders = ("notebooks", "solutions", "exercises")
    paths = (path for folder in folders for path in (root / folder).glob("*.*"))
    return {str(path.relative_to(root)): path.read_bytes() for path in paths}


@pytest.fixture
def command(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    """`command(course, "03")` is `./hpml build 03` in that course, its lines; it must end well."""

    def run(course: Course, *words: str) -> list[str]:
        monkeypatch.setattr(schedule, "load", lambda: course)
        with pytest.raises(SystemExit) as ended:
            cli.main(["build", *words])
        assert ended.value.code == 0
        return capsys.readouterr().out.splitlines()

    return run


def test_a_second_build_elsewhere_makes_the_same_bytes(built, unbuilt: Course, command) -> None:
    assert command(unbuilt, "03")[-1] == "Everything is made."
    again = files(unbuilt.root)
    varying = "application/none"
    for path, text in files(built).items():
        if path == LECTURE:  # its process id and its seconds are meant to vary
            ours, theirs = json.loads(text), json.loads(again[path])
            for notebook in (ours, theirs):
                notebook["cells"][-2]["outputs"] = varying  # after it come the links
                assert notebook["metadata"].pop("hpml")["seconds"]
            assert ours == theirs
        else:
            assert again[path] == text, path
    assert str(unbuilt.root) not in "".join(text.decode() for text in again.values())


def test_sources_are_left_alone(built: Path, unbuilt: Course) -> None:
    for path in ("notebooks/03_rings.py", "solutions/03_rings.py"):
        assert (built / path).read_bytes() == (unbuilt.root / path).read_bytes()


def test_outputs_are_kept_and_counted(course: Course) -> None:
    code = [cell for cell in content(course, LECTURE)["cells"] if cell["cell_type"] == "code"]
    assert [cell["execution_count"] for cell in code] == [1, 2, 3]
    assert "image/png" in code[0]["outputs"][0]["data"]
    assert code[1]["outputs"][0]["data"]["text/plain"] == ["42"]
    assert all(set(cell["metadata"]) <= {"tags"} for cell in code)


def test_a_solution_has_what_nbgrader_wants_to_know(course: Course) -> None:
    solution = cells(course, SOLUTION)
    answer = solution["answer-ring"]["metadata"]["nbgrader"]
    check = solution["check-tree"]["metadata"]["nbgrader"]
    flags = {"grade": False, "locked": False, "schema_version": 3, "solution": False, "task": False}
    assert answer == flags | {"grade_id": "answer-ring", "solution": True}
    assert check == flags | {"grade_id": "check-tree", "grade": True, "locked": True, "points": 3}


def test_an_exercise_has_stubs_where_the_solution_has_answers(course: Course) -> None:
    solution, exercise = cells(course, SOLUTION), cells(course, EXERCISE)
    assert list(solution) == list(exercise)
    assert "## `ring`\n\n**Core**, about 10 minutes." in map(source, exercise.values())
    assert "## `tree`\n\n**More**, about 10 minutes: after the core exercises, or at home." in map(
        source, exercise.values()
    )
    differing = [key for key in solution if source(solution[key]) != source(exercise[key])]
    assert differing == ["answer-ring", "answer-tree"]
    assert source(exercise["answer-tree"]) == (
        "%%answer tree\nimport math\n\n\ndef tree(values: list[int]) -> int:\n    start = 1\n"
        "    # YOUR CODE HERE\n    raise NotImplementedError()"
    )


def test_the_line_on_the_core_path_is_replaced_where_a_source_has_it(course: Course) -> None:
    made = build.exercise_files(course, course.modules[0])
    script = course.root / "solutions/03_rings.py"
    script.write_text(
        script.read_text().replace("## `ring`\n", "## `ring`\n#\n# **More**, about 3 minutes.\n")
    )
    assert (
        build.exercise_files(course, course.modules[0])[Path("exercises/03_rings.py")]
        == (made[Path("exercises/03_rings.py")])
    )


def test_notebooks_end_in_links_that_are_replaced_where_a_source_has_them(course: Course) -> None:
    lecture, solution, exercise = (
        source(content(course, path)["cells"][-1]) for path in (LECTURE, SOLUTION, EXERCISE)
    )
    assert lecture == (
        "## Where next\n\nThe [exercises](../exercises/03_rings.ipynb) of this module: "
        "first `ring`; for the evening `tree`."
    )
    assert exercise == solution
    assert "This was the last module." in exercise
    assert "The [lecture](../notebooks/03_rings.ipynb) of these exercises." in exercise
    made = build.exercise_files(course, course.modules[0])
    script = course.root / "solutions/03_rings.py"
    with script.open("a") as file:
        file.write("\n# %% [markdown]\n# ## Where next\n#\n# Somewhere else.\n")
    assert build.exercise_files(course, course.modules[0]) == made


def test_links_that_a_source_has_are_compared(course: Course) -> None:
    script = course.root / "notebooks/03_rings.py"
    links = source(content(course, LECTURE)["cells"][-1]).replace("\n", "\n# ")
    text = f"{script.read_text()}\n# %% [markdown]\n# {links}\n"
    script.write_text(text)
    assert build.check(course, course.modules) == []
    for wrong in (text.replace("`ring`", "`bush`"), text + '\n# %%\n"more"\n'):
        script.write_text(wrong)
        assert "notebooks/03_rings.py: its links are not course.toml's: copy the last cell of " in (
            "\n".join(map(str, build.check(course, course.modules)))
        )


def test_an_exercise_links_the_next_module(course: Course) -> None:
    first = course.modules[0]
    second = dataclasses.replace(first, id="04", name="trees", title="Trees")
    assert where_next.after_exercises(
        dataclasses.replace(course, modules=(first, second)), first
    ).startswith(
        "The next lecture is [04 Trees](../notebooks/04_trees.ipynb); then come its "
        "[exercises](04_trees.ipynb)."
    )


def test_an_exercise_without_a_heading_is_named(course: Course) -> None:
    script = course.root / "solutions/03_rings.py"
    script.write_text(script.read_text().replace("## `tree`", "## tree"))
    with pytest.raises(UserError, match="no text begins with the heading ## `tree`"):
        build.exercise_files(course, course.modules[0])


def test_an_exercise_has_no_outputs_and_is_locked_where_it_explains(course: Course) -> None:
    exercise = cells(course, EXERCISE)
    code = [cell for cell in exercise.values() if cell["cell_type"] == "code"]
    assert all(cell["outputs"] == [] and cell["execution_count"] is None for cell in code)
    for key, cell in exercise.items():
        meta = cell["metadata"]
        free = key == "answer-ring" or key == "answer-tree"
        own = source(cell).startswith(("print", "%load_ext hpml_stand_in"))
        assert meta.get("editable", True) is (free or own), key
        assert meta.get("deletable", True) is own, key
        assert own or len(meta["nbgrader"]["checksum"]) == 32


def test_the_exercise_script_reads_back_as_the_notebook(course: Course) -> None:
    script = read_script(course.root / "exercises/03_rings.py")
    assert [cell.source for cell in script.cells] == [
        source(cell) for cell in content(course, EXERCISE)["cells"]
    ]
    text = (course.root / "exercises/03_rings.py").read_text()
    assert "# %%answer ring\n" in text
    assert "nbgrader" not in text
    compile(text, "exercise", "exec")


def test_everything_built_is_as_it_should_be(course: Course) -> None:
    assert build.check(course, course.modules) == []


def edit(path: str, change: Callable[[dict[str, Any]], None]) -> Callable[[Course], None]:
    def apply(course: Course) -> None:
        notebook = content(course, path)
        change(notebook)
        (course.root / path).write_text(json.dumps(notebook, indent=1, sort_keys=True) + "\n")

    return apply


def replace(path: str, old: str, new: str) -> Callable[[Course], None]:
    def apply(course: Course) -> None:
        text = (course.root / path).read_text()
        assert text.count(old) >= 1
        (course.root / path).write_text(text.replace(old, new, 1))

    return apply


def remove(path: str) -> Callable[[Course], None]:
    return lambda course: (course.root / path).unlink()


def stranger(course: Course) -> None:
    (course.root / "solutions/04_new.py").write_text("")


def code_cell(number: int, **fields: Any) -> Callable[[dict[str, Any]], None]:
    def change(notebook: dict[str, Any]) -> None:
        code = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
        code[number].update(fields)

    return change


ERROR = {"output_type": "error", "ename": "ValueError", "evalue": "no\nsuch", "traceback": []}
LEAK = {"output_type": "stream", "name": "stdout", "text": ["data in /home/ada/cifar\n"]}
BIG = {"output_type": "stream", "name": "stdout", "text": ["x" * 2_000_001]}


@pytest.mark.parametrize(
    ("damage", "file", "says"),
    [
        (replace(EXERCISE, "YOUR CODE HERE", "MY CODE HERE"), EXERCISE, "solutions/03_rings.py ge"),
        (replace("exercises/03_rings.py", "# YOUR", "# MY"), "exercises/03_rings.py", "not what"),
        (edit(LECTURE, code_cell(1, execution_count=None)), LECTURE, "cell 3 was not executed"),
        (edit(LECTURE, code_cell(1, execution_count=7)), LECTURE, r"out of order: \[7\] .*\[2\]"),
        (edit(LECTURE, code_cell(1, outputs=[ERROR])), LECTURE, "an error: ValueError: no$"),
        (edit(LECTURE, code_cell(1, outputs=[LEAK])), LECTURE, "a path .*: /home/ada"),
        (edit(LECTURE, code_cell(1, outputs=[BIG])), LECTURE, "outputs of 2.0 MB"),
        (edit(LECTURE, code_cell(1, source=["6 * 8"])), LECTURE, "the source of cell 3 differs"),
        (edit(LECTURE, lambda nb: nb["cells"].pop()), LECTURE, "5 cells there, 4 here"),
        (edit(LECTURE, lambda nb: nb["metadata"].update(x=1)), LECTURE, "metadata differ"),
        (edit(SOLUTION, code_cell(1, metadata={})), SOLUTION, "the metadata of cell 4 differs"),
        (replace("notebooks/03_rings.py", "6 * 7", "6 * 8"), LECTURE, "source of cell 3 differs"),
        (replace("notebooks/03_rings.py", "goes", "went"), LECTURE, "source of cell 1 differs"),
        (replace("solutions/03_rings.py", "start = 1", "start = 0"), EXERCISE, "not what"),
        (replace(f"{CHECKS}/ring.py", "4", "5"), SOLUTION, "metadata of cell 5"),
        (remove(EXERCISE), EXERCISE, "missing: run ./hpml build"),
        (remove(LECTURE), LECTURE, "missing: run ./hpml build"),
        (remove("notebooks/03_rings.py"), "notebooks/03_rings.py", "missing"),
        (replace(LECTURE, "{", "", ), LECTURE, "not a Jupyter notebook"),
        (stranger, "solutions/04_new.py", "belongs to no module"),
    ],
)  # fmt: skip
def test_check_names_what_is_not_as_it_would_be_made(
    course: Course, damage: Callable[[Course], None], file: str, says: str
) -> None:
    damage(course)
    changed = schedule.load(course.root / "course.toml")
    found = [f for f in build.check(changed, changed.modules) if str(f.file) == file]
    assert any(re.search(says, finding.what) for finding in found), found


@pytest.mark.parametrize("skip", ['# %% tags=["nbval-skip"]\n6 * 7', "# %%\n# NBVAL_SKIP\n6 * 7"])
def test_a_cell_that_would_be_skipped_is_found(unbuilt: Course, skip: str) -> None:
    replace("notebooks/03_rings.py", "# %%\n6 * 7", skip)(unbuilt)
    found = build.build(unbuilt, unbuilt.modules)
    assert [str(finding) for finding in found] == [f"{LECTURE}: cell 3 is marked to be skipped"]


@pytest.mark.parametrize(
    ("line", "timeout", "says"),
    [
        ("1 / 0", 60, "code cell 2 of 3 (1 / 0): ZeroDivisionError: division by zero"),
        ("import os; os._exit(3)", 60, "the kernel died: it left with exit status 3"),
        ("import time; time.sleep(600)", 5, "ran longer than 5 s and was stopped"),
    ],
)
def test_a_failing_cell_is_named_and_its_notebook_left_as_it_was(
    course: Course, line: str, timeout: float, says: str
) -> None:
    before = (course.root / LECTURE).read_bytes()
    replace("notebooks/03_rings.py", "6 * 7", f"0\n{line}" if "import" in line else line)(course)
    found = build.build(course, course.modules, keep_outputs=True, timeout=timeout)
    assert [str(finding.file) for finding in found] == [LECTURE]
    assert says in found[0].what
    assert (course.root / LECTURE).read_bytes() == before


def test_an_expected_error_is_no_failure(unbuilt: Course) -> None:
    tagged = '# %% tags=["raises-exception"]\n1 / 0'
    replace("notebooks/03_rings.py", "# %%\n6 * 7", tagged)(unbuilt)
    found = build.build(unbuilt, unbuilt.modules)
    assert found == []


def test_outputs_can_be_kept_when_only_words_change(course: Course, command) -> None:
    process = cells(course, LECTURE)
    replace("notebooks/03_rings.py", "What goes round?", "What comes round?")(course)
    said = command(course, "03", "--keep-outputs")
    assert said[0] == f"{LECTURE}: written"  # no cell ran before
    kept = list(cells(course, LECTURE).values())[-1]
    assert kept == list(process.values())[-1]


def test_outputs_of_changed_cells_are_not_kept(course: Course) -> None:
    replace("notebooks/03_rings.py", "6 * 7", "6 * 8")(course)
    assert build.build(course, course.modules, keep_outputs=True) == []
    assert "48" in (course.root / LECTURE).read_text()


def test_a_build_tells_each_cell(unbuilt: Course) -> None:
    said: list[str] = []
    build.build(unbuilt, unbuilt.modules, say=said.append)
    assert [line.split()[1] for line in said if line.startswith(LECTURE + " ")] == [
        "1/3",
        "2/3",
        "3/3",
    ]
    assert any(line.startswith(SOLUTION) and line.endswith("%%answer ring") for line in said)


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("%%answer tree", "%%answer bush", "cell 7: exercise 'bush' is not in course.toml"),
        ('check("tree")', 'print("tree")', '0 cells are check("tree"), expected one'),
        ('check("tree")', 'check("ring")', '2 cells are check("ring"), expected one'),
        ("# %%answer tree", "print()", "check('tree') comes before %%answer tree"),
        ("    ### BEGIN SOLUTION\n    total", "    total", "0 BEGIN and 1 END SOLUTION marks"),
        ("    ### END SOLUTION\n\n", "\n", "1 BEGIN and 0 END SOLUTION marks"),
        ("    start = 1", "start = 1", "the stub is not valid Python at line"),
        ('print("try', '### BEGIN SOLUTION\nprint("try', "nbgrader: no end solution"),
    ],
)
def test_a_mistake_in_a_solution_is_named(course: Course, old: str, new: str, says: str) -> None:
    replace("solutions/03_rings.py", old, new)(course)
    found = [str(finding) for finding in build.check(course, course.modules)]
    assert any(finding.startswith("exercises/") and says in finding for finding in found), found
