"""The steps on the cluster: their format, and that commands and log lines are the real ones."""

import re
import shlex
from pathlib import Path

import pytest

from hpml.cluster import job_script
from hpml.course import schedule
from hpml.course.instructors import cluster_steps
from hpml.course.schedule import Course
from hpml.errors import UserError
from hpml.paths import CHECKOUT

COURSE = schedule.load()
PARTS = {module.id: cluster_steps.read(COURSE, module) for module in COURSE.modules}
STEPS = [(module, step) for module, part in PARTS.items() if part for step in part.steps]
# What writes to the log of these jobs
PRINTING = (
    *("slurm/06_several_nodes.slurm", "slurm/study.sh", "src/hpml/bench/scaling_sizes.py"),
    *("src/hpml/train/__main__.py", "src/hpml/train/progress_lines.py"),
)


@pytest.fixture
def read(course: Course):
    """`read(text)`: the part of the course's one module, of a file with that text."""
    file = course.root / cluster_steps.FILE
    file.parent.mkdir(parents=True, exist_ok=True)

    def of(text: str) -> cluster_steps.ClusterPart | None:
        file.write_text(text)
        return cluster_steps.read(course, course.modules[0])

    return of


def test_06_and_08_have_a_part_of_15_and_of_10_minutes():
    assert {name: part.minutes for name, part in PARTS.items() if part} == {"06": 15, "08": 10}


@pytest.mark.parametrize(("module", "step"), STEPS, ids=lambda value: getattr(value, "do", value))
def test_a_submitted_script_is_the_modules_and_is_rehearsed_by_the_same(module, step):
    for words in map(shlex.split, step.type.split(";")):
        if words[0] != "submit":
            continue
        (path,) = [Path(word) for word in words if word.endswith(".slurm")]
        assert path in COURSE.module(module).jobs
        rehearsed = shlex.split(step.rehearse)
        script = job_script.read(path, CHECKOUT)
        assert rehearsed[:5] == ["./hpml", "submit", module, "--job", script.name]
        limits = [word for word in words if word.startswith("--time")]
        assert [word for word in rehearsed if word.startswith("--time")] == limits


def test_the_log_files_that_are_read_are_those_of_the_scripts():
    for module, step in STEPS:
        for log in re.findall(r"slurm-(\S+)-\*\.out", step.type):
            jobs = COURSE.module(module).jobs
            names = [job_script.read(path, CHECKOUT).options["job-name"] for path in jobs]
            assert log in names


def test_what_is_to_be_read_in_the_log_is_what_the_programs_print():
    """The words between what differs each time stand in the source of one of them."""
    sources = [(CHECKOUT / file).read_text() for file in PRINTING]
    # An f-string that goes on in the next line, and a plural
    sources = [re.sub(r'"\n\s*f?"', "", text) for text in sources]
    sources = [re.sub(r"\{'s' \* \([^)]*\)\}", "s", text) for text in sources]
    lines = [line for _, step in STEPS for line in step.log]
    ours = [line for line in lines if not line.startswith("slurmstepd")]  # SLURM's own word
    assert len(ours) == len(lines) - 1
    for line in ours:
        pieces = [piece.strip(" :,") for piece in re.split(r"…|\d+", line)]
        pieces = [piece for piece in pieces if len(piece) > 3]
        assert pieces
        assert any(all(piece in text for piece in pieces) for text in sources), line


GOOD = """["03"]
after = "Below"
[["03".steps]]
minutes = 3
do = "Submit."
type = "submit it"
read = "Who waits?"
"""


def test_a_module_without_a_part_has_none(read, course):
    assert cluster_steps.read(course, course.modules[0]) is None  # no file
    assert read(GOOD.replace("03", "04")) is None
    assert read(GOOD).minutes == 3


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ('after = "Below"', "", 'cluster_steps.toml: 03: expected after = "a section"'),
        ("minutes = 3", "", "a step: missing or unknown minutes"),
        ("minutes = 3", "minutes = 0", "minutes = 0, expected a whole number"),
        ("minutes = 3", "minutes = 3\nreads = 1", "missing or unknown reads"),
        ('"Submit."', "4", "4 is not a text"),
        ("minutes = 3", 'minutes = 3\nlog = ["a", 7]', "7 is not a text"),
        ("minutes = 3", "minutes =", "not valid TOML"),
    ],
)
def test_another_format_is_one_clear_line(read, old, new, said):
    assert old in GOOD
    with pytest.raises(UserError, match=re.escape(said)):
        read(GOOD.replace(old, new))
