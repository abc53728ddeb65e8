"""./hpml restore: a file as it was handed out, and the learner's own kept beside it."""

from pathlib import Path

import pytest

from hpml import cli
from hpml.course import restore
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


def test_a_release_has_all_its_notebooks_to_restore(made) -> None:
    import io
    import zipfile

    with zipfile.ZipFile(io.BytesIO(made["src/hpml/course/handed_out.zip"].data)) as packed:
        for name in packed.namelist():
            assert packed.read(name) == made[name].data
        assert {n for n in made if n.startswith(("notebooks/", "exercises/"))} == set(
            packed.namelist()
        )
