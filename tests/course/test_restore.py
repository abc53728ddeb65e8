"""./hpml restore: a file as it was handed out, and the learner's own kept beside it."""

import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from hpml import cli
from hpml.answer import read
from hpml.course import restore, schedule
from hpml.errors import UserError

NAME = "exercises/01_rings.py"


@pytest.fixture
def originals(tmp_path: Path) -> Path:
    path = tmp_path / "handed_out.zip"
    path.write_bytes(restore.archive({NAME: b"as it was"}))
    return path


def test_what_the_learner_wrote_is_kept_each_time(tmp_path: Path, originals: Path) -> None:
    root = tmp_path / "course"
    target = root / NAME
    root.mkdir()
    assert restore.restore(target, root, originals) is None  # it was gone
    assert target.read_bytes() == b"as it was"
    for number in (1, 2):
        target.write_bytes(b"mine %d" % number)
        kept = restore.restore(target, root, originals)
        assert kept == root / f"exercises/01_rings.mine-{number}.py"
        assert kept.read_bytes() == b"mine %d" % number
        assert target.read_bytes() == b"as it was"
    assert restore.restore(target, root, originals) is None  # nothing to do
    assert len(list(target.parent.iterdir())) == 3


def test_what_was_not_handed_out_is_refused(tmp_path: Path, originals: Path) -> None:
    for path, root, words in (
        (tmp_path / "mine.py", tmp_path, "mine.py was not handed out"),
        (Path("/etc/passwd"), tmp_path / "course", "is not in the course"),
    ):
        with pytest.raises(UserError, match=words):
            restore.restore(path, root, originals)


def test_a_checkout_has_git_for_that(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        cli.main(["restore", "exercises/00_your_machine.py"])
    assert ended.value.code == 2
    assert "git restore exercises/00_your_machine.py" in capsys.readouterr().err


def test_one_stub_comes_back_and_all_else_stays(tmp_path: Path, monkeypatch) -> None:
    course = replace(schedule.load(), root=tmp_path)
    for folder in ("exercises", "solutions"):
        (tmp_path / folder).mkdir()
    for name in ("exercises/01_parallel_sgd.ipynb", "exercises/01_parallel_sgd.py"):
        shutil.copy(schedule.load().root / name, tmp_path / name)
    shutil.copy(schedule.load().root / "solutions/01_parallel_sgd.py", tmp_path / "solutions")
    monkeypatch.chdir(tmp_path)
    files = sorted((tmp_path / "exercises").iterdir())
    before = [path.read_bytes() for path in files]
    assert restore.stub_again(course, "amdahl") == "amdahl is as it was handed out"
    for number, path in enumerate(files):
        mine = path.read_text().replace("def strong_speedup(", f"def mine_{number}(", 1)
        path.write_text(mine)
    one = restore.stub_again(course, "amdahl")
    assert one == (
        "amdahl is as it was handed out in exercises/01_parallel_sgd.ipynb and "
        "exercises/01_parallel_sgd.py; yours is exercises/amdahl.mine-1.py, "
        "exercises/amdahl.mine-2.py"
    )
    assert [path.read_bytes() for path in files] == before
    (mine,) = read(tmp_path / "exercises/amdahl.mine-2.py")
    assert "def mine_1(" in mine.source
    files[0].unlink()
    files[1].write_text("# %%\n1 + 1\n")
    with pytest.raises(UserError, match="starts with %%answer amdahl: restore exe"):
        restore.stub_again(course, "amdahl")


def test_a_stub_made_from_a_solution_is_the_one_that_was_handed_out(originals: Path) -> None:
    course = schedule.load()
    for module in course.modules:
        name = module.exercise_notebook.with_suffix(".py")
        originals.write_bytes(restore.archive({str(name): (course.root / name).read_bytes()}))
        for answer in read(course.root / name):
            made = restore._stub(course, answer.exercise, Path("none"))
            assert made == answer.source
            assert restore._stub(course, answer.exercise, originals) == made.rstrip("\n")


def test_a_release_has_all_its_notebooks_to_restore(made) -> None:
    import io
    import zipfile

    with zipfile.ZipFile(io.BytesIO(made["src/hpml/course/handed_out.zip"].data)) as packed:
        for name in packed.namelist():
            assert packed.read(name) == made[name].data
        assert {n for n in made if n.startswith(("notebooks/", "exercises/"))} == set(
            packed.namelist()
        )
