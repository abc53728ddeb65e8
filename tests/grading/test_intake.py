"""Submissions are found in every shape they come in, and only answers to known exercises count."""

import json
import os
import subprocess
import sys
from pathlib import Path
from zipfile import ZIP_DEFLATED, ZipFile

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hpml.checks.registry import ids, of_module
from hpml.errors import UserError
from hpml.grading.intake import LONGEST_ANSWER, collect
from hpml.grading.naming import LONGEST, safe_names
from hpml.paths import CHECKOUT

RING = "%%answer hello_ranks\ndef total(number):\n    return 1\n"
DDP = "%%answer ddp\nimport torch\n"
STUB = "%%answer ddp\ndef ddp():\n    raise NotImplementedError()\n"


def notebook(*sources: object, **changes: object) -> bytes:
    cells = [
        {"cell_type": "code", "metadata": {}, "outputs": [], "source": source} for source in sources
    ]
    return json.dumps({"nbformat": 4, "nbformat_minor": 5, "cells": cells, **changes}).encode()


def write(folder: Path, files: dict[str, bytes]) -> Path:
    for name, data in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    return folder


def zipped(path: Path, files: dict[str, bytes]) -> Path:
    with ZipFile(path, "w") as archive:
        for name, data in files.items():
            archive.writestr(name, data)
    return path


@pytest.fixture
def answered(tmp_path):
    """`answered(path, …)` is who answered what: {"alice": {"ddp", …}, …}."""
    scratch = tmp_path / "scratch"
    scratch.mkdir()

    def take(*paths: Path) -> dict[str, set[str]]:
        found = collect(paths, scratch)
        assert [each.person for each in found] == sorted(
            (each.person for each in found), key=str.casefold
        )
        assert list(scratch.iterdir()) == []
        return {each.person: set(each.answers) for each in found}

    return take


@pytest.fixture
def one(tmp_path):
    """`one(path, …)` is the only submission there."""

    def take(*paths: Path):
        (found,) = collect(paths, tmp_path)
        return found

    return take


BOTH = {"alice": {"hello_ranks"}, "bob": {"ddp"}}


def test_a_notebook_is_one_submission(tmp_path, one):
    path = tmp_path / "alice.ipynb"
    path.write_bytes(notebook("import torch", RING))
    found = one(path)
    assert (found.person, found.files, found.notes, found.refused) == ("alice", (path,), (), "")
    answer = found.answers["hello_ranks"]
    assert (answer.source, answer.where) == (RING, "alice.ipynb, cell 2")


def test_a_source_may_be_a_list_of_lines_and_a_script_may_be_a_submission(tmp_path, one):
    (tmp_path / "alice.ipynb").write_bytes(notebook(RING.splitlines(keepends=True)))
    assert one(tmp_path / "alice.ipynb").answers["hello_ranks"].source == RING
    commented = "# %% [markdown]\n# # Title\n\n# %%\n# " + RING + "\n# %%\n1\n"
    (tmp_path / "alice.py").write_text(commented)
    answer = one(tmp_path / "alice.py").answers["hello_ranks"]
    assert (answer.source, answer.where) == (RING, "alice.py, line 5")


def test_a_folder_of_notebooks(tmp_path, answered):
    folder = write(tmp_path / "in", {"bob.ipynb": notebook(DDP), "alice.ipynb": notebook(RING)})
    assert answered(folder) == BOTH
    assert answered(folder / "bob.ipynb", folder / "alice.ipynb") == BOTH


def test_one_folder_per_person_with_folders_in_it(tmp_path, answered):
    files = {
        "alice/00_your_machine.ipynb": notebook(RING),
        "alice/deeper/and/deeper/mine.py": b"# %%\n# " + DDP.encode(),
        "bob/work.ipynb": notebook(DDP),
    }
    expected = {"alice": {"hello_ranks", "ddp"}, "bob": {"ddp"}}
    assert answered(write(tmp_path / "in", files)) == expected
    assert answered(zipped(tmp_path / "class.zip", files)) == expected
    wrapped = {f"handed in/2026/{name}": data for name, data in files.items()}
    assert answered(zipped(tmp_path / "wrapped.zip", wrapped)) == expected


def test_a_notebook_that_has_the_courses_name_belongs_to_its_folder(tmp_path, answered):
    files = {"00_your_machine.ipynb": notebook(RING), "06_torch_distributed.ipynb": notebook(DDP)}
    folder = write(tmp_path / "alice", files)
    assert answered(folder) == {"alice": {"hello_ranks", "ddp"}}
    assert answered(zipped(tmp_path / "alice.zip", files)) == {"alice": {"hello_ranks", "ddp"}}
    inside = zipped(tmp_path / "in.zip", {f"alice/{name}": data for name, data in files.items()})
    assert answered(inside) == {"alice": {"hello_ranks", "ddp"}}
    other = write(tmp_path / "bob", {"06_torch_distributed.ipynb": notebook(DDP)})
    name = "06_torch_distributed.ipynb"
    assert answered(folder / name, other / name) == {"alice": {"ddp"}, "bob": {"ddp"}}


def test_an_archive_in_a_folder_is_one_persons(tmp_path, answered):
    folder = tmp_path / "in"
    folder.mkdir()
    zipped(folder / "alice.zip", {"Bob Roe_7_assignsubmission_file_/a.ipynb": notebook(RING)})
    zipped(folder / "bob.zip", {"a/b/c.ipynb": notebook(DDP)})
    assert answered(folder) == BOTH


@pytest.mark.parametrize(
    "ending", ["_assignsubmission_file_/", "_assignsubmission_file/", "_assignsubmission_file_"]
)
def test_an_export_of_moodle(tmp_path, ending):
    files = {
        f"Zoë van der Berg-Ó Néill_12345{ending}06_torch_distributed.ipynb": notebook(DDP),
        f"Zoë van der Berg-Ó Néill_12345{ending}00_your_machine.ipynb": notebook(RING),
        f"Jane Doe_12346{ending}06_torch_distributed.ipynb": notebook(DDP),
        f"Jane Doe_12347{ending}report.pdf": b"%PDF",
        "Jane Doe_12346_assignsubmission_onlinetext/onlinetext.html": b"<p>hello",
    }
    for path in (zipped(tmp_path / "HPML-06-99.zip", files), write(tmp_path / "in", files)):
        jane, other, zoe = collect([path], tmp_path)
        assert (zoe.person, zoe.name) == (
            "Zoë_van_der_Berg-Ó_Néill_12345",
            "Zoë van der Berg-Ó Néill",
        )
        assert set(zoe.answers) == {"ddp", "hello_ranks"}
        assert (jane.person, jane.name, set(jane.answers)) == (
            "Jane_Doe_12346",
            "Jane Doe",
            {"ddp"},
        )
        assert other.person == "Jane_Doe_12347"
        assert other.refused.startswith("no notebook, script or .zip is among")


def test_a_team_of_moodle_that_has_no_id(tmp_path, one):
    export = zipped(
        tmp_path / "class.zip", {"Default group_assignsubmission_file_/x.ipynb": notebook(DDP)}
    )
    assert one(export).person == "Default_group"


def test_an_export_of_moodle_with_archives_within(tmp_path, answered):
    zipped(tmp_path / "work.zip", {"all/06.ipynb": notebook(DDP), "all/__MACOSX/._06.ipynb": b"x"})
    inner = (tmp_path / "work.zip").read_bytes()
    export = zipped(tmp_path / "class.zip", {"Jane Doe_1_assignsubmission_file/work.zip": inner})
    assert answered(export) == {"Jane_Doe_1": {"ddp"}}


def test_an_export_of_canvas(tmp_path):
    files = {
        "doejane_111_900_06_torch_distributed.ipynb": notebook(DDP),
        "doejane_111_901_00_your_machine-1.ipynb": notebook(RING),
        "de_la_cruzana_LATE_222_902_06_torch_distributed.ipynb": notebook(DDP),
        "anon_aB3dE_903_06_torch_distributed.ipynb": notebook(DDP),
        "LATE_anon_fG4hI_904_06_torch_distributed.ipynb": notebook(DDP),
    }
    anon, late_anon, ana, jane = collect([zipped(tmp_path / "submissions.zip", files)], tmp_path)
    assert (jane.person, jane.name, jane.notes) == ("doejane_111", "doejane", ())
    assert set(jane.answers) == {"ddp", "hello_ranks"}
    assert (ana.person, ana.name) == ("de_la_cruzana_222", "de_la_cruzana")
    assert ana.notes == late_anon.notes == ("marked late by the platform",)
    assert (anon.person, late_anon.person) == ("anon_aB3dE", "anon_fG4hI")


def test_the_tree_of_nbgrader(tmp_path, answered):
    course = tmp_path / "course"
    write(
        course,
        {
            "submitted/alice/ps1/one.ipynb": notebook(RING),
            "submitted/alice/ps2/two.ipynb": notebook(DDP),
            "submitted/alice/ps2/timestamp.txt": b"2026-01-01",
            "submitted/bob@uni.edu/ps1/one.ipynb": notebook(RING),
            "autograded/alice/ps1/one.ipynb": notebook(DDP),
            "source/ps1/one.ipynb": notebook(DDP),
            "gradebook.db": b"SQLite",
        },
    )
    whole = {"alice": {"hello_ranks", "ddp"}, "bob@uni.edu": {"hello_ranks"}}
    assert answered(course) == whole
    assert answered(course / "submitted") == whole
    assert answered(course / "submitted" / "alice") == {"alice": {"hello_ranks", "ddp"}}
    assert answered(course / "submitted" / "alice" / "ps2") == {"alice": {"ddp"}}
    assert answered(course / "submitted" / "alice" / "ps2" / "two.ipynb") == {"alice": {"ddp"}}
    assert collect([course / "submitted"], tmp_path)[1].email == "bob@uni.edu"


def test_copies_that_nobody_handed_in_are_passed_over(tmp_path, one):
    files = {
        "alice/a.ipynb": notebook(DDP),
        "alice/.ipynb_checkpoints/a-checkpoint.ipynb": notebook("%%answer ddp\nold"),
        "alice/__MACOSX/a.ipynb": b"\0",
        "alice/.DS_Store": b"\0",
        "alice/my_module.py": b"import torch\n",
    }
    found = one(write(tmp_path / "in", files))
    assert (set(found.answers), found.notes) == ({"ddp"}, ())
    assert [path.name for path in found.files] == ["a.ipynb"]


def test_files_of_one_person_are_merged_and_like_answers_are_one(tmp_path, one):
    files = {"a.ipynb": notebook(DDP, RING), "b.py": b"# %%\n# " + DDP.encode()}
    found = one(write(tmp_path / "in" / "alice", files).parent)
    assert (set(found.answers), found.notes) == ({"ddp", "hello_ranks"}, ())


def test_two_answers_to_one_exercise_count_as_none(tmp_path, one):
    path = write(tmp_path, {"alice.ipynb": notebook(DDP, DDP + "\nmore", RING)}) / "alice.ipynb"
    found = one(path)
    assert set(found.answers) == {"hello_ranks"}
    assert found.notes == (
        "%%answer ddp is there 2 times, and not alike: alice.ipynb cell 1, alice.ipynb cell 2; "
        "none of them counts: hand in one",
    )
    path.write_bytes(notebook(STUB, DDP))
    assert set(one(path).answers) == set()


def test_a_file_with_the_stub_only_is_left_aside(tmp_path, one):
    files = {"06.ipynb": notebook(DDP), "06.py": b"# %%\n# " + STUB.encode()}
    folder = write(tmp_path / "in" / "alice", files).parent
    found = one(folder)
    assert (found.answers["ddp"].source, found.notes) == (DDP, ())
    write(folder / "alice", {"06.ipynb": notebook("%%answer rest\n1")})
    assert one(folder).answers["ddp"].is_stub


def test_an_unknown_id_is_said_with_the_nearest(tmp_path, one):
    path = write(tmp_path, {"alice.ipynb": notebook(RING, "%%answer dpp\n1", "%%answer\n1")})
    found = one(path / "alice.ipynb")
    assert set(found.answers) == {"hello_ranks"}
    assert found.notes == (
        "alice.ipynb, cell 3: '%%answer': expected %%answer and one exercise id",
        "alice.ipynb, cell 2: no exercise has the id 'dpp': did you mean ddp?",
    )


def test_tags_outputs_and_other_cells_have_no_effect(tmp_path, one):
    plain = json.loads(notebook(DDP, 'check("ddp")'))
    write(tmp_path, {"alice.ipynb": json.dumps(plain).encode()})
    before = one(tmp_path / "alice.ipynb")
    plain["metadata"] = {"kernelspec": {"name": "evil"}, "celltoolbar": "x"}
    plain["cells"][0]["metadata"] = {"tags": ["raises-exception"], "nbgrader": {"points": 9999}}
    plain["cells"][1] = {"cell_type": "code", "metadata": [], "source": "# NBVAL_SKIP\n%%answer"}
    plain["cells"][1]["source"] = "get_ipython().input_transformers_cleanup = []"
    plain["cells"][1]["outputs"] = {"not": "a list"}
    plain["cells"].insert(0, {"cell_type": "markdown", "source": "%%answer ddp\nnot this"})
    write(tmp_path, {"alice.ipynb": json.dumps(plain).encode()})
    after = one(tmp_path / "alice.ipynb")
    assert after.digest == before.digest
    assert after.answers["ddp"].source == DDP


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "not JSON: Expecting value in line 1"),
        (b"\x80\x81", "is not UTF-8 text"),
        (b"[1, 2]", "it has no nbformat"),
        (b"[" * 100_000, "nested too deep"),
        (notebook(nbformat=3), "has nbformat 3: open it in JupyterLab and save it"),
        (notebook(nbformat=5), "has nbformat 5"),
        (notebook(nbformat="4"), "has nbformat 4"),
        (notebook(nbformat=4.5), "has nbformat"),
        (b'{"nbformat": ' + b"9" * 100_000 + b"}", "has nbformat 999999999"),
        (notebook(cells={}), "it has no list of cells"),
        (notebook(cells=[DDP]), "cell 1 is none"),
        (notebook(cells=[{"cell_type": ["code"]}]), "cell 1 is none"),
        (notebook(RING, 7), "the source of cell 2 is not text"),
        (notebook(["a", {}]), "the source of cell 1 is not text"),
        (notebook(cells=[{"cell_type": "code"}]), "the source of cell 1 is not text"),
        (notebook(cells=[[]] * 20_001), "has 20001 cells"),
    ],
)
def test_what_is_no_notebook_is_refused_by_name_and_the_rest_goes_on(tmp_path, data, message):
    folder = write(tmp_path / "in", {"alice.ipynb": data, "bob.ipynb": notebook(DDP)})
    alice, bob = collect([folder], tmp_path)
    assert alice.refused.startswith("alice.ipynb ")
    assert message in alice.refused
    assert (alice.answers, alice.notes, set(bob.answers)) == ({}, (), {"ddp"})
    (alone,) = collect([folder / "alice.ipynb"], tmp_path)
    assert alone == alice


def test_an_answer_that_is_no_text_or_endless_does_not_count(tmp_path, one):
    long = "%%answer read_queue\n" + "#" * LONGEST_ANSWER
    write(tmp_path, {"alice.ipynb": notebook(DDP + "'\ud800'", RING, long)})
    found = one(tmp_path / "alice.ipynb")
    assert set(found.answers) == {"hello_ranks"}
    assert found.notes == (
        "alice.ipynb, cell 1: the answer is not valid Unicode text and does not count",
        "alice.ipynb, cell 3: the answer is longer than 100000 characters and does not count",
    )


def test_a_mark_at_the_beginning_of_a_file_is_no_fault(tmp_path, one):
    write(tmp_path, {"alice.ipynb": b"\xef\xbb\xbf" + notebook(DDP)})
    assert set(one(tmp_path / "alice.ipynb").answers) == {"ddp"}


def test_links_pipes_and_large_files_are_refused_by_name(tmp_path):
    folder = write(tmp_path / "in", {"zoe.ipynb": notebook(DDP), "alice/a.ipynb": notebook(RING)})
    secret = write(tmp_path / "solutions", {"06.ipynb": notebook(DDP)})
    (folder / "bob.ipynb").symlink_to(secret / "06.ipynb")
    (folder / "carol").symlink_to(secret)
    (folder / "dave.ipynb").symlink_to("nowhere")
    os.mkfifo(folder / "erin.ipynb")
    os.mkfifo(folder / "alice" / "pipe.pdf")
    (folder / "alice" / "b.ipynb").symlink_to(secret / "06.ipynb")
    with open(folder / "frank.ipynb", "wb") as file:
        file.truncate(500_000_000)  # of holes
    found = {each.person: each for each in collect([folder], tmp_path)}
    link = "is a symbolic link, which is not followed"
    assert found["bob"].refused == f"bob.ipynb {link}"
    assert found["carol"].refused == f"carol {link}"
    assert found["dave"].refused == f"dave.ipynb {link}"
    assert found["erin"].refused == "erin.ipynb is not a regular file"
    assert found["frank"].refused.startswith("frank.ipynb is larger than 100 MB")
    assert found["alice"].notes == (f"b.ipynb {link}", "pipe.pdf is not a regular file")
    assert set(found["alice"].answers) == {"hello_ranks"}
    assert set(found["zoe"].answers) == {"ddp"}


def test_a_file_that_was_exchanged_for_a_pipe_is_refused(tmp_path, monkeypatch, one):
    regular = os.lstat(write(tmp_path, {"regular": b""}) / "regular")
    os.mkfifo(tmp_path / "alice.ipynb")
    monkeypatch.setattr("hpml.grading.folder.os.lstat", lambda path: regular)
    assert one(tmp_path / "alice.ipynb").refused == "alice.ipynb is not a regular file"


def test_folders_without_end_are_refused(tmp_path):
    deep = write(tmp_path / "in", {"alice/" + "d/" * 30 + "a.ipynb": notebook(DDP)})
    write(deep, {"bob.ipynb": notebook(DDP)})
    alice, bob = collect([deep], tmp_path)
    assert alice.refused.endswith("d/d is deeper than 20 folders")
    assert set(bob.answers) == {"ddp"}


def test_a_hostile_hand_in_harms_nobody_else_in_a_class(tmp_path):
    mallory, alice = "Mallory_9_assignsubmission_file_", "Alice_1_assignsubmission_file_"
    bomb = tmp_path / "bomb.zip"
    with ZipFile(bomb, "w", ZIP_DEFLATED) as archive:
        archive.writestr("06_torch_distributed.ipynb", bytes(20_000_000))
        archive.writestr(f"../{alice}/06_torch_distributed.ipynb", notebook(DDP))
    export = zipped(
        tmp_path / "class.zip",
        {
            f"{alice}/06.ipynb": notebook(DDP),
            f"{mallory}/../{alice}/06.ipynb": notebook("%%answer ddp\nbad"),
            f"{mallory}/{alice}/06.ipynb": b"[" * 100_000,
            f"../{alice}/06.ipynb": notebook("%%answer ddp\nbad"),
            f"{mallory}/bomb.zip": bomb.read_bytes(),
        },
    )
    first, second = collect([export], tmp_path)
    assert (first.person, first.refused, set(first.answers)) == ("Alice_1", "", {"ddp"})
    assert first.notes == ("06.ipynb has a path that leads out of the archive",)
    assert (second.person, second.answers) == ("Mallory_9", {})
    for message in ("leads out of the archive", "nested too deep", "bomb.zip/06_torch", "zip bomb"):
        assert message in second.refused


@pytest.mark.parametrize(
    ("first", "said"),
    [
        (
            "# my answer\n%%answer ddp",
            "%%answer ddp must be the first line of its cell, it is line 2",
        ),
        ("%% answer ddp", "'%% answer ddp': expected %%answer and one exercise id"),
        ("# %%answer ddp", "'# %%answer ddp': expected %%answer and one exercise id"),
        ("%Answer: ddp", "'%Answer: ddp': expected %%answer and one exercise id"),
        ("%%answers ddp", "'%%answers ddp': expected %%answer and one exercise id"),
        ("%%answer ddp mine", "'%%answer ddp mine': expected %%answer and one exercise id"),
        ("%%answer dpp", "no exercise has the id 'dpp': did you mean ddp?"),
    ],
)
def test_a_near_miss_of_the_magic_is_named_and_is_its_exercises(tmp_path, one, first, said):
    (tmp_path / "alice.ipynb").write_bytes(notebook(RING, f"{first}\nimport torch\n"))
    found = one(tmp_path / "alice.ipynb")
    assert set(found.answers) == {"hello_ranks"}
    assert list(found.uncounted) == ["ddp"]
    assert said in found.uncounted["ddp"]
    assert "cell 2" in found.uncounted["ddp"]
    assert any(said in note for note in found.notes)
    (tmp_path / "alice.ipynb").write_bytes(notebook(f"{first}\nimport torch\n", DDP))
    assert one(tmp_path / "alice.ipynb").answers["ddp"].source == DDP, "a right one counts"


def as_text(data: bytes, number: int, kind: str) -> bytes:
    """A notebook whose cell `number`, counted from 0, is made a cell of another kind."""
    made = json.loads(data)
    made["cells"][number]["cell_type"] = kind
    return json.dumps(made).encode()


@pytest.mark.parametrize("kind", ["markdown", "raw"])
@pytest.mark.parametrize("first", ["%%answer ddp", "# %%answer ddp", "Mine:\n```\n%%answer ddp"])
def test_an_answer_in_a_text_cell_does_not_count_and_the_remedy_is_said(tmp_path, one, kind, first):
    data = as_text(notebook(RING, f"{first}\nimport torch\n"), 1, kind)
    (tmp_path / "alice.ipynb").write_bytes(data)
    found = one(tmp_path / "alice.ipynb")
    assert set(found.answers) == {"hello_ranks"}
    name = {"markdown": "Markdown", "raw": "raw"}[kind]
    said = f"alice.ipynb, cell 2: the answer is in a {name} cell: make it a code cell"
    assert found.uncounted == {"ddp": said}
    assert found.notes == (said,)


def test_an_answer_in_a_text_cell_of_a_script_does_not_count(tmp_path, one):
    for text in ("# %%answer ddp\n# import torch\n", '"""\n%%answer ddp\nimport torch\n"""\n'):
        (tmp_path / "alice.py").write_text(f"x = 1\n\n# %% [markdown]\n{text}")
        assert "cell 2: the answer is in a Markdown" in one(tmp_path / "alice.py").uncounted["ddp"]


def test_an_old_try_in_a_text_cell_leaves_the_answer_as_it_is(tmp_path, one):
    data = as_text(notebook(DDP + "x = 1\n", DDP), 0, "markdown")
    (tmp_path / "alice.ipynb").write_bytes(data)
    found = one(tmp_path / "alice.ipynb")
    assert (found.answers["ddp"].source, found.uncounted, found.notes) == (DDP, {}, ())


def test_beside_the_stub_as_it_was_handed_out_an_answer_in_a_text_cell_is_the_answer(tmp_path, one):
    handed_out = (CHECKOUT / "exercises" / "06_torch_distributed.ipynb").read_bytes()
    made = json.loads(handed_out)
    old = {"cell_type": "markdown", "metadata": {}, "source": DDP}
    made["cells"].append(old)
    (tmp_path / "alice.ipynb").write_text(json.dumps(made))
    assert list(one(tmp_path / "alice.ipynb").uncounted) == ["ddp"]


def test_stubs_and_prose_in_text_cells_are_no_answers(tmp_path, one):
    made = json.loads((CHECKOUT / "exercises" / "06_torch_distributed.ipynb").read_bytes())
    for cell in made["cells"]:
        cell["cell_type"] = "markdown"
    made["cells"] += json.loads(as_text(notebook("I wrote\n\n%%answer ddp\n"), 0, "raw"))["cells"]
    (tmp_path / "alice.ipynb").write_text(json.dumps(made))
    found = one(tmp_path / "alice.ipynb")
    assert (found.answers, found.uncounted) == ({}, {})


def test_a_line_of_a_million_blanks_is_read(tmp_path):
    """A pattern that tries all ways to split them would take hours."""
    (tmp_path / "alice.ipynb").write_bytes(notebook(" " * 1_000_000 + "x", DDP))
    code = "import sys; from pathlib import Path; from hpml.grading.intake import collect\n"
    code += "print(*collect([Path(sys.argv[1])], Path(sys.argv[2]))[0].answers)"
    arguments = [sys.executable, "-c", code, str(tmp_path / "alice.ipynb"), str(tmp_path)]
    assert subprocess.check_output(arguments, text=True, timeout=600) == "ddp\n"


def test_a_script_with_a_cell_named_answer_is_a_near_miss(tmp_path, one):
    (tmp_path / "alice.py").write_text("# %% answer ddp\nimport torch\n")
    assert "'%% answer ddp'" in one(tmp_path / "alice.py").uncounted["ddp"]


def test_prose_about_answers_is_no_near_miss(tmp_path, one):
    lines = "# 50 % answered\n# %answer the question first\nx = 7 % answer\n"
    (tmp_path / "alice.ipynb").write_bytes(notebook(lines, RING))
    found = one(tmp_path / "alice.ipynb")
    assert (found.uncounted, found.notes) == ({}, ())


def test_two_copies_that_differ_do_not_count_and_both_are_named(tmp_path):
    files = {"a/06.ipynb": notebook(DDP), "a/06 (1).ipynb": notebook(DDP + "x = 1\n")}
    (found,) = collect([write(tmp_path / "in", files)], tmp_path)
    assert "ddp" not in found.answers
    assert "06.ipynb cell 1" in found.uncounted["ddp"]
    assert "06 (1).ipynb cell 1" in found.uncounted["ddp"]
    assert found.uncounted["ddp"].endswith("none of them counts: hand in one")


def test_outputs_of_any_size_are_ignored(tmp_path, one):
    picture = 'iVBOR\\"\n[{' * 400_000
    cells = [
        {"cell_type": "code", "source": RING, "metadata": {"a": [picture]}, "outputs": []},
        {
            "cell_type": "code",
            "source": DDP,
            "outputs": [{"data": {"image/png": picture, "x": [[{}], "]"]}} for _ in range(6)],
        },
        {"cell_type": "markdown", "source": "outputs", "attachments": {"a.png": picture}},
    ]
    whole = {"cells": cells, "metadata": {"outputs": [picture]}, "nbformat": 4}
    (tmp_path / "alice.ipynb").write_text(text := json.dumps(whole))
    assert len(text) > 25_000_000
    found = one(tmp_path / "alice.ipynb")
    assert {a.exercise: a.source for a in found.answers.values()} == {
        "hello_ranks": RING,
        "ddp": DDP,
    }
    assert (found.notes, found.refused) == ((), "")
    cells[0]["source"] = picture * 5
    (tmp_path / "alice.ipynb").write_text(json.dumps(whole))
    refused = one(tmp_path / "alice.ipynb").refused
    assert "20 MB without its outputs: take large data out of its text" in refused


@pytest.mark.parametrize("size", [0, 30_000_000])
def test_a_notebook_that_was_cut_off_is_refused_for_its_modules_exercises(tmp_path, size):
    outputs = [{"output_type": "stream", "text": "x" * size}]
    cell = {"cell_type": "code", "metadata": {}, "source": DDP, "outputs": outputs}
    data = notebook(RING, cells=[cell])
    files = {"a/00_your_machine.ipynb": notebook(RING), "a/06_torch_distributed.ipynb": data[:-60]}
    (found,) = collect([write(tmp_path / "in", files)], tmp_path)
    assert set(found.answers) == {"hello_ranks"}
    assert "was the upload cut off?" in found.unread["ddp"]
    assert " at in line" not in found.unread["ddp"]
    assert found.unread["ddp"].startswith("06_torch_distributed.ipynb is not a Jupyter notebook")
    assert "hello_ranks" not in found.unread
    assert set(found.unread) == set(of_module("06_torch_distributed"))


def test_where_a_file_of_any_name_cannot_be_read_any_answer_may_be_in_it(tmp_path):
    data = {"a/mine.ipynb": notebook(RING), "a/other.ipynb": b"{", "a/data.tar": b"x"}
    (found,) = collect([write(tmp_path / "in", data)], tmp_path)
    assert set(found.unread) == set(ids())
    (tmp_path / "in/a/other.ipynb").unlink()
    (found,) = collect([tmp_path / "in"], tmp_path)
    assert found.unread == {}, "beside answers, an archive of another kind is data"
    (tmp_path / "in/a/mine.ipynb").unlink()
    write(tmp_path / "in", {"b.ipynb": notebook(RING)})
    alone, _ = collect([tmp_path / "in"], tmp_path)
    assert set(alone.unread) == set(ids())


def test_a_digest_is_of_what_was_read_and_of_what_was_not(tmp_path, one):
    path, digests = tmp_path / "alice.ipynb", set()
    for data in (notebook(RING), notebook(RING, "%% answer ddp"), notebook(RING, DDP), b"{"):
        path.write_bytes(data)
        digests.add(one(path).digest)
    assert len(digests) == 4


def test_notes_are_not_without_end(tmp_path, one):
    cells = ["%%answer two words"] * 100 + [f"%%answer other_{n}" for n in range(100)]
    write(tmp_path, {"alice.ipynb": notebook(DDP, *cells)})
    found = one(tmp_path / "alice.ipynb")
    assert len(found.notes) == 20
    assert found.notes[-1] == "and 101 notes more"


def test_a_path_that_is_no_submission_is_one_line(tmp_path):
    empty = tmp_path / "empty"
    empty.mkdir()
    papers = write(tmp_path / "papers", {"alice/report.pdf": b"%PDF"})
    link = tmp_path / "link"
    link.symlink_to(papers)
    (tmp_path / "broken.zip").write_bytes(b"PK\5\6 and no more")
    (tmp_path / "report.pdf").write_bytes(b"%PDF")
    for path, message in {
        "missing": "missing: no such file or folder",
        "empty": "empty: there is no notebook",
        "papers": "papers: there is no notebook",
        "link": "link: is a symbolic link: name what it leads to",
        "broken.zip": "broken.zip: is not a zip archive",
        "report.pdf": "report.pdf: expected a notebook",
    }.items():
        with pytest.raises(UserError) as refused:
            collect([tmp_path / path], tmp_path)
        assert message in str(refused.value)
        assert "\n" not in str(refused.value)


def test_among_several_paths_a_bad_one_is_refused_and_the_rest_goes_on(tmp_path, monkeypatch):
    folder = write(tmp_path / "in", {"alice.ipynb": notebook(DDP), "bob.pdf": b"", "c.zip": b""})
    (folder / "dave.ipynb").symlink_to(folder / "alice.ipynb")
    write(folder, {"erin.ipynb": notebook(DDP)})
    allowed = os.access
    monkeypatch.setattr(os, "access", lambda path, how: path.stem != "erin" and allowed(path, how))
    alice, *others = collect(sorted(folder.iterdir()), tmp_path)
    assert set(alice.answers) == {"ddp"}
    assert {each.person: each.refused for each in others} == {
        "bob": "bob.pdf expected a notebook, a .py script, a .zip or a folder",
        "c": "c.zip is not a zip archive",
        "dave": "dave.ipynb is a symbolic link: name what it leads to",
        "erin": "erin.ipynb cannot be read: Permission denied",
    }
    with pytest.raises(UserError, match=r"erin\.ipynb: cannot be read: Permission denied"):
        collect([folder / "erin.ipynb"], tmp_path)


def test_another_courses_notebooks_are_one_line_with_what_they_answer(tmp_path):
    folder = write(tmp_path / "in", {"alice.ipynb": notebook("%%answer sort\n1"), "b.ipynb": b""})
    with pytest.raises(UserError, match=r"another course's notebooks\? They answer sort; the exe"):
        collect([folder], tmp_path)
    write(folder, {"carol.ipynb": notebook(DDP)})
    assert [each.person for each in collect([folder], tmp_path)] == ["alice", "b", "carol"]


def test_a_notebook_without_answers_is_a_submission_all_the_same(tmp_path, one):
    write(tmp_path, {"alice.ipynb": notebook("1 + 1")})
    found = one(tmp_path / "alice.ipynb")
    assert (found.answers, found.refused) == ({}, "")
    assert found.notes == ("alice.ipynb: no cell starts with %%answer ID",)


def test_names_that_are_alike_or_odd_become_safe_and_distinct(tmp_path):
    names = ["Alice", "alice", "a lice", "a_lice", "-rf", "...", "<script>alert(1)<", "x" * 200]
    names = [name for name in names if not name.startswith(".")]
    folder = write(tmp_path / "in", {f"{name}/a.ipynb": notebook(DDP) for name in names})
    found = collect([folder], tmp_path)
    assert [each.person for each in found] == [
        "a_lice", "a_lice_2", "Alice", "alice_2", "rf", "script_alert_1", "x" * 80,
    ]  # fmt: skip
    assert {each.person: each.name for each in found}["script_alert_1"] == "<script>alert(1)<"


def test_a_long_name_fits_into_a_file_system_and_an_accent_is_kept():
    names = safe_names(["𠀀" * 100, "Zoe\u0308"])
    assert names == {"𠀀" * 100: "𠀀" * 50, "Zoe\u0308": "Zoë"}


def test_a_name_that_is_not_text_can_be_written_down(tmp_path):
    folder = os.fsencode(tmp_path / "in")
    os.mkdir(folder)
    with open(folder + b"/\xff\x1b[2J.ipynb", "wb") as file:
        file.write(notebook(DDP, "%%answer"))
    (found,) = collect([tmp_path / "in"], tmp_path)
    assert found.person == "2J"
    texts = " ".join([found.name, *found.notes, *map(str, found.files)])
    texts.encode()
    assert "\x1b" not in texts


@given(st.lists(st.text(min_size=0, max_size=120), max_size=30))
def test_safe_names_are_safe_and_do_not_collide(keys):
    names = safe_names(keys)
    assert set(names) == set(keys)
    assert len({name.casefold() for name in names.values()}) == len(names)
    for name in names.values():
        assert 0 < len(name) <= LONGEST
        assert len(f"{name}.json".encode()) < 255
        assert name[0] not in ".-"
        assert not set(name) & set("/\\\0\n :<>|*?\"'")
    assert safe_names(reversed(keys)) == names


def test_a_class_is_read_in_one_order_whatever_the_order_of_its_paths(tmp_path):
    folder = write(tmp_path / "in", {f"{n:03}.ipynb": notebook(DDP) for n in range(50)})
    paths = list(folder.iterdir())
    assert collect(paths, tmp_path) == collect(paths[::-1], tmp_path) == collect([folder], tmp_path)
