"""A class graded by a job array and merged has the marks of a class graded by one process."""

import json
import shutil

import pytest

from ..waiting import until

pytestmark = [
    pytest.mark.measures,  # a daemon
    pytest.mark.xdist_group("cluster"),
    pytest.mark.usefixtures("sandboxed"),
]

PATIENCE = 600.0  # seconds
ANSWERS = {
    "ada": "dist.all_reduce(total)",
    "bob": "dist.all_reduce(total, op=dist.ReduceOp.MAX)",
    "cleo": "pass",
    "dan": "dist.all_reduce(total)",
    "eve": "return int(dist.all_reduce(total) or 0)",
}


@pytest.fixture
def project(cluster):
    """A folder that all nodes see, with five people's answers, right and wrong, below it."""
    folder = cluster.project() / "submissions"
    folder.mkdir()
    for person, call in ANSWERS.items():
        source = (
            "%%answer hello_ranks\nimport torch\nimport torch.distributed as dist\n\n\n"
            f"def hello(number):\n    total = torch.tensor(number)\n    {call}\n"
            "    return total.item()\n"
        )
        cell = {"cell_type": "code", "source": source, "metadata": {}, "outputs": []}
        notebook = {"cells": [cell], "metadata": {}, "nbformat": 4, "nbformat_minor": 4}
        (folder / f"{person}.ipynb").write_text(json.dumps(notebook))
    return folder.parent


def marks(folder):
    """By person: what each claim came to, and the points. Not how long it took."""
    found = {}
    for path in (folder / "records").glob("*.json"):
        record = json.loads(path.read_text())
        (result,) = record["results"]
        kept = ("status", "earned", "points", "headline", "claims", "answer")
        found[record["person"]] = {name: result[name] for name in kept}
    return found


def test_an_array_of_two_gives_the_marks_of_one_run(cluster, project):
    out, plain = project / "by-array", project / "by-one"
    options = ["--only", "hello_ranks"]
    asked = ["--array=1-2", "--cpus-per-task=1", "--mem-per-cpu=1G"]
    script = ["slurm/grade_array.slurm", "submissions/", "--out", "by-array", *options]
    job = cluster.submit(*asked, *script)
    waiting = ("squeue", "--noheader", f"--jobs={job}")
    until(lambda: not cluster.output(*waiting), f"the end of job {job}", PATIENCE)
    logs = [project / f"slurm-grade-{job}-{part}.out" for part in (1, 2)]
    for part, (log, graded) in enumerate(zip(logs, (3, 2), strict=True), 1):
        assert f"Part {part}/2: {graded} graded." in log.read_text(), log.read_text()
    assert not (out / "marks.csv").exists()

    merged = cluster.hpml("grade", "--merge", "--out", str(out))
    assert merged.returncode == 1, merged.stdout + merged.stderr  # some answers are wrong
    plain.mkdir()
    shutil.copy(out / "secret", plain)  # the same inputs
    alone = cluster.hpml(
        "grade", str(project / "submissions"), "--out", str(plain), *options, timeout=PATIENCE
    )
    assert alone.returncode == 1, alone.stdout + alone.stderr

    assert sorted(marks(out)) == sorted(ANSWERS)
    assert marks(out) == marks(plain)
    assert {person: found["earned"] for person, found in marks(out).items()} == {
        "ada": 2, "bob": 0, "cleo": 0, "dan": 2, "eve": 0,
    }  # fmt: skip
    assert (out / "marks.csv").read_text() == (plain / "marks.csv").read_text()
