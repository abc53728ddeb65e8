"""The patch, and what applies it."""

import re

import pytest

from hpml.errors import UserError
from hpml.horovod import VERSION, patch
from hpml.horovod.flavour import PATCH

BEFORE = {"a.txt": "".join(f"{n}\n" for n in range(1, 21)), "sub/b.txt": "one\ntwo\nthree\n"}
SMALL = """\
Words before a file are a comment. --- a is none, nor is
@@ this.

--- a/a.txt
+++ b/a.txt
@@ -2,3 +2,4 @@
 2
-3
+three
+and a half
 4
@@ -18,3 +19,2 @@
 18
-19
 20
More words.
--- a/sub/b.txt
+++ b/sub/b.txt
@@ -2 +2 @@
-two
+2
"""


@pytest.fixture
def tree(tmp_path):
    root = tmp_path / "tree"
    for name, text in BEFORE.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    (tmp_path / "small.patch").write_text(SMALL)
    return root


def test_it_does_what_the_program_patch_does(tree, tmp_path):
    patch.apply(tmp_path / "small.patch", tree)
    lines = BEFORE["a.txt"].splitlines()
    lines[17:20] = ["18", "20"]
    lines[1:4] = ["2", "three", "and a half", "4"]
    assert (tree / "a.txt").read_text().splitlines() == lines
    assert (tree / "sub" / "b.txt").read_text() == "one\n2\nthree\n"


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("a.txt", BEFORE["a.txt"].replace("20", "21"), "a.txt is different at line 18"),
        ("a.txt", "0\n" + BEFORE["a.txt"], "a.txt is different at line 2"),  # nothing is looked for
        ("sub/b.txt", None, "sub/b.txt is not there"),
        ("sub/b.txt", "one\n", "sub/b.txt is different at line 2"),
    ],
)
def test_what_does_not_fit_is_reported_and_nothing_is_changed(tree, tmp_path, name, text, words):
    (tree / name).unlink()
    if text is not None:
        (tree / name).write_text(text)
    with pytest.raises(UserError, match=f"small.patch does not fit: {words}"):
        patch.apply(tmp_path / "small.patch", tree)
    assert (tree / "a.txt").read_text() == (text if name == "a.txt" else BEFORE["a.txt"])


def test_every_file_of_horovods_patch_has_its_reason_above_it():
    lines = PATCH.read_text().splitlines()
    files = [at for at, line in enumerate(lines) if line.startswith("--- a/")]
    assert len(files) >= 5
    for at in files:
        assert lines[at - 1] == ""
        assert re.match(r"[A-Z].*\w.*", lines[at - 2]) or lines[at - 2].endswith(".")
    assert VERSION in lines[0]


def test_horovods_patch_changes_the_lines_that_it_names(tmp_path):
    """On files that are made of its own context, as the archive need not be there."""
    for name, hunks in patch._files(PATCH.read_text().splitlines(keepends=True)):
        lines = ["filler\n"] * 2000
        for start, body in hunks:
            old = [line[1:] for line in body if line[0] in " -"]
            lines[start : start + len(old)] = old
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("".join(lines))
    patch.apply(PATCH, tmp_path)
    assert "set(CMAKE_CXX_STANDARD 20)" in (tmp_path / "CMakeLists.txt").read_text()
    assert "xla_mpi_ops" not in (tmp_path / "horovod/tensorflow/CMakeLists.txt").read_text()
    assert "distutils" not in (tmp_path / "horovod/runner/js_run.py").read_text()
