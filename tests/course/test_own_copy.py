"""A copy of the course for one learner, of an installation that is shared."""

from pathlib import Path

import pytest

from hpml.course import own_copy
from hpml.course.restore import restore
from hpml.errors import UserError

OWN = ["exercises/00_one.py", "notebooks/00_one.ipynb", "slurm/00_hello.slurm", "slurm/kit/ssh"]
LINKS = [".venv", "course.toml", "hpml", "slurm/site.sh", "src"]


@pytest.fixture
def installed(tmp_path: Path) -> Path:
    root = tmp_path / "installed"
    others = [".git/HEAD", ".hpml/progress.json", "build/log", "exercises/.ipynb_checkpoints/x.py"]
    others += ["exercises/__pycache__/x.pyc", "exercises/00_one.mine-1.py"]
    for name in [*OWN, *others, "course.toml", "hpml", "slurm/site.sh", "src/hpml/paths.py"]:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(name)
        (root / name).chmod(0o444)
    (root / "slurm/kit/ssh").chmod(0o555)
    return root.resolve()


def make(folder: Path, installed: Path) -> int:
    return own_copy.make(folder, installed, installed / "environment")


def contents(folder: Path) -> tuple[list[str], list[str]]:
    """The files and the links in it, nothing below a link."""
    found = [path for path in folder.rglob("*") if path.is_symlink() or path.is_file()]
    inside = [p for p in found if not any(q.is_symlink() for q in p.parents if q != folder)]
    names = sorted(path.relative_to(folder).as_posix() for path in inside if not path.is_symlink())
    links = sorted(path.relative_to(folder).as_posix() for path in inside if path.is_symlink())
    return names, links


def test_what_a_learner_writes_is_copied_and_all_else_is_a_link(installed, tmp_path):
    assert make(tmp_path / "mine", installed) == len(OWN)
    assert contents(tmp_path / "mine") == (OWN, LINKS)
    assert (tmp_path / "mine/.venv").readlink() == installed / "environment"
    assert (tmp_path / "mine/slurm/site.sh").readlink() == installed / "slurm/site.sh"


def test_files_may_be_written_and_programs_still_run(installed, tmp_path):
    make(tmp_path / "mine", installed)
    modes = {name: (tmp_path / "mine" / name).stat().st_mode & 0o700 for name in OWN}
    assert modes == {**dict.fromkeys(OWN, 0o600), "slurm/kit/ssh": 0o700}


def test_what_a_copy_lacks_is_added_and_nothing_is_changed(installed, tmp_path):
    make(tmp_path / "mine", installed)
    (tmp_path / "mine/exercises/00_one.py").write_text("my answer")
    (tmp_path / "mine/notebooks/00_one.ipynb").unlink()
    (installed / "exercises/01_two.py").write_text("new")
    assert make(tmp_path / "mine", installed) == 2
    assert (tmp_path / "mine/exercises/00_one.py").read_text() == "my answer"
    assert (tmp_path / "mine/exercises/01_two.py").read_text() == "new"


def test_links_follow_an_installation_that_has_moved(installed, tmp_path):
    make(tmp_path / "mine", installed)
    moved = installed.rename(tmp_path / "moved")
    assert make(tmp_path / "mine", moved) == 0
    assert (tmp_path / "mine/src").readlink() == moved / "src"
    assert contents(tmp_path / "mine") == (OWN, LINKS)


def test_a_folder_with_something_else_is_left_alone(installed, tmp_path):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine/thesis.tex").write_text("all my work")
    with pytest.raises(UserError, match="something else in it: name a new folder"):
        make(tmp_path / "mine", installed)
    assert contents(tmp_path / "mine") == (["thesis.tex"], [])


@pytest.mark.parametrize("inside", [".", "exercises/mine"])
def test_the_course_is_not_copied_into_itself(installed, inside):
    with pytest.raises(UserError, match="lies in the course that it would be a copy of"):
        make(installed / inside, installed)


def test_what_cannot_be_written_is_named(installed, tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match=r"file/mine.*: Not a directory$"):
        make(tmp_path / "file" / "mine", installed)


def test_a_file_of_a_copy_is_restored_from_where_it_came(installed, tmp_path, monkeypatch):
    make(tmp_path / "mine", installed)
    changed = tmp_path / "mine/exercises/00_one.py"
    changed.write_text("my answer")
    monkeypatch.setattr("hpml.course.restore.INSTALLED", installed)
    kept = restore(changed, tmp_path / "mine", originals=tmp_path / "no release")
    assert (changed.read_text(), kept.read_text()) == ("exercises/00_one.py", "my answer")
