"""What a file rests on, in a small checkout and in this one."""

import pytest

from .import_graph import ImportGraph, check_file

SMALL = {
    "requirements.lock": "torch==2.13.0\n",
    "src/hpml/__init__.py": "from hpml.upper import top\n",
    "src/hpml/upper/__init__.py": "",
    "src/hpml/upper/top.py": '"""hpml.alone is prose."""\nfrom hpml.lower import middle\n',
    "src/hpml/upper/table.csv": "1\n",
    "src/hpml/upper/inner/page.html": "<p>",
    "src/hpml/lower/__init__.py": "",
    "src/hpml/lower/middle.py": "def far():\n    from hpml.lower.bottom import fact\n",
    "src/hpml/lower/bottom.py": "import sys\n\nfact = 1\n\n\ndef other():\n    return 2\n",
    "src/hpml/started.py": 'COMMAND = ["-m", "hpml.lower.bottom"]\n',
    "src/hpml/named.py": "",
    "src/hpml/by_name.py": 'import_module(f"hpml.{name}")\nTABLE = {"named": 1}\n',
    "src/hpml/starts.py": 'SCRIPT = Path(__file__).with_name("script.py")\n',
    "src/hpml/script.py": "",
    "src/hpml/alone.py": "",
    "src/hpml/cli/__init__.py": 'COMMANDS = {"grow": Command(\n    "grow_command")}\n',
    "src/hpml/cli/grow_command.py": "from hpml.lower import bottom\n",
    "notebooks/01.py": "# %%ranks 2\n# from hpml.upper import top\n",
    "slurm/01.slurm": "source slurm/site.sh\nsrun python -m hpml.started\n",
    "slurm/site.sh": "",
    "tests/conftest.py": "from hpml import alone\n",
    "tests/test_top.py": "from hpml.upper.top import x\nfrom .beside import y\n",
    "tests/beside.py": "",
    "tests/test_page.py": 'PAGE = "notebooks/01.py"\n',
    "tests/test_all.py": 'files = root.rglob("*.py")\n',
    "tests/test_grow.py": 'run([python, "-m", "hpml", "grow"])\n',
    "tests/test_grown.py": 'assert "grow"\n',
    "tests/test_job.py": 'JOB = "slurm/01.slurm"\n',
    "tests/test_jobs.py": 'folder = root / "slurm"\nother = root / "notebooks"\n',
}
JOB = ("slurm/01.slurm", "slurm/site.sh", "started.py", "lower/bottom.py")


@pytest.fixture
def small(tmp_path):
    for name, text in SMALL.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return tmp_path


def reach(root, *files):
    found = ImportGraph(root).reach(files) - {*files}
    return {file.removeprefix("src/hpml/") for file in found if "__init__" not in file}


def test_a_test_that_goes_through_the_sources_rests_on_each(small):
    sources = {file for file in SMALL if file.endswith(".py")}
    assert sources <= ImportGraph(small).reach(["tests/test_all.py"])


@pytest.mark.parametrize(
    ("file", "expected"),
    {
        # what a function imports when it is called; data of the package; and nothing for prose
        "src/hpml/upper/top.py": {
            *("lower/middle.py", "lower/bottom.py"),
            *("upper/table.csv", "upper/inner/page.html"),
        },
        "src/hpml/lower/bottom.py": set(),
        "src/hpml/started.py": {"lower/bottom.py"},
        "src/hpml/by_name.py": {"named.py"},
        "src/hpml/starts.py": {"script.py"},
        "notebooks/01.py": {
            *("upper/top.py", "lower/middle.py", "lower/bottom.py"),
            *("upper/table.csv", "upper/inner/page.html"),
        },
        # the conftest.py of all tests is counted, and not what its fixtures import
        "tests/test_job.py": {*JOB, "tests/conftest.py"},
        "tests/test_jobs.py": {*JOB, "notebooks/01.py", "tests/conftest.py"},
        "tests/test_grow.py": {"cli/grow_command.py", "lower/bottom.py", "tests/conftest.py"},
        "tests/test_grown.py": {"tests/conftest.py"},
    }.items(),
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_file_rests_on_what_it_imports_starts_and_names(small, file, expected):
    assert reach(small, file) == expected


def test_a_line_far_below_changes_the_key_and_nothing_else_does(small):
    def key():
        return ImportGraph(small).key(["src/hpml/upper/top.py"], "the answer")

    before = key()
    (small / "src/hpml/alone.py").write_text("fact = 3\n")
    assert key() == before
    bottom = small / "src/hpml/lower/bottom.py"
    for file, text in (
        (bottom, bottom.read_text().replace("return 2", "return 3")),
        (small / "src/hpml/upper/table.csv", "2\n"),
        (small / "requirements.lock", "torch==2.14.0\n"),
    ):
        kept = file.read_text()
        file.write_text(text)
        assert key() != before
        file.write_text(kept)
        assert key() == before


def test_half_of_a_key_stays_when_something_far_below_changes(small):
    exercise = "src/hpml/modules/m01_day/checks/add.py"
    for file, text in {
        "src/hpml/modules/__init__.py": "",
        "src/hpml/modules/m01_day/__init__.py": "",
        "src/hpml/modules/m01_day/checks/__init__.py": "",
        exercise: "from hpml.modules.m01_day.checks import kit\n",
        "src/hpml/modules/m01_day/checks/kit.py": "from hpml.upper import top\n",
    }.items():
        (small / file).parent.mkdir(parents=True, exist_ok=True)
        (small / file).write_text(text)

    def keys():
        return ImportGraph(small).key([exercise]).split("-")

    near, whole = keys()
    for file, stays in {
        "src/hpml/modules/m01_day/checks/kit.py": False,
        "src/hpml/upper/top.py": False,  # the kit imports it
        "src/hpml/lower/middle.py": True,
        "src/hpml/lower/bottom.py": True,
    }.items():
        kept = (small / file).read_text()
        (small / file).write_text(f"{kept}# another line\n")
        now, all_of_it = keys()
        assert (now == near) == stays, file
        assert all_of_it != whole, file
        (small / file).write_text(kept)


def test_what_was_read_is_kept_by_the_text_alone(small, tmp_path):
    kept = tmp_path / "facts.json"
    first = ImportGraph(small, kept)
    expected = first.reach(["src/hpml/upper/top.py"])
    first.save()
    assert ImportGraph(small, kept).reach(["src/hpml/upper/top.py"]) == expected
    (small / "src/hpml/upper/top.py").write_text("from hpml import alone\n")
    assert "src/hpml/alone.py" in ImportGraph(small, kept).reach(["src/hpml/upper/top.py"])
    kept.write_text("{")  # cut off
    assert ImportGraph(small, kept).reach(["src/hpml/lower/middle.py"])


def test_the_nearest_come_first(small):
    near = ImportGraph(small).distances(["src/hpml/lower/bottom.py"])
    assert near["src/hpml/lower/middle.py"] == near["src/hpml/started.py"] == 1
    assert near["src/hpml/upper/top.py"] == 2
    assert near["tests/test_top.py"] == near["notebooks/01.py"] == 3
    assert "src/hpml/alone.py" not in near
    assert "tests/test_page.py" not in near  # it reads the notebook, not what that imports
    assert ImportGraph(small).distances(["notebooks/01.py"])["tests/test_page.py"] == 1
    assert near["tests/test_job.py"] == 3  # it may submit the script


def test_a_check_rests_on_the_engine_and_on_no_other_check():
    graph = ImportGraph()
    found = graph.reach([check_file("ddp")])
    assert {"src/hpml/ranks/server/server.py", "src/hpml/checks/contract.py"} <= found
    assert graph.checks["ddp"] == check_file("ddp")
    assert check_file("zero1") not in found
    assert "src/hpml/modules/m07_hybrid_parallelism/lecture/bubble_picture.py" not in found
