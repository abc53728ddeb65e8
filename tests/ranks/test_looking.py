"""Files are seen from outside the ranks."""

import os
from pathlib import Path

import pytest

from hpml.ranks import Reply, ask, encoding, launch
from hpml.ranks.parent.ledger import RankLog
from hpml.ranks.parent.serving import MAX_LOOKS, Serving
from hpml.ranks.supervisor.looking import MAX_DEPTH, MAX_FILES, MAX_NAME, files_in, first_below


def serve(rank, request):
    return [Reply(rank)]


def test_files_are_in_the_evidence_at_each_request_and_at_the_end(tmp_path):
    def drive():
        os.mkdir("folder")
        ask("empty")
        for size in (0, 5):
            with open("folder/file", "w") as file:
                file.write("x" * size)
            ask(size)
        with open("later", "w") as file:
            file.write("y")

    evidence = launch(drive, 1, process_group=False, cwd=tmp_path, serve=serve, looks=True)
    assert evidence.diagnosis is None
    seen = [asked.files for asked in evidence.ranks[0].asked]
    assert seen == [{}, {"folder/file": 0}, {"folder/file": 5}]
    assert evidence.files == {"folder/file": 5, "later": 1}


def test_a_rank_goes_on_when_its_files_were_looked_at(tmp_path):
    def drive(rank):
        path = f"file{rank}"
        for _ in range(20):
            with open(path, "w"):
                ask("there")
            os.remove(path)
            ask("gone")

    evidence = launch(
        drive, 2, inputs=[0, 1], process_group=False, cwd=tmp_path, serve=serve, looks=True
    )
    for rank in evidence.ranks:
        seen = [f"file{rank.rank}" in asked.files for asked in rank.asked]
        assert seen == [True, False] * 20


def test_a_rank_that_replaces_what_looks_at_files_changes_nothing(tmp_path):
    def drive():
        Path("file").write_text("x")
        os.scandir = os.listdir = lambda *_: iter(())
        os.stat = os.lstat = Path.exists = lambda *_, **__: None
        ask("now")

    evidence = launch(drive, 1, process_group=False, cwd=tmp_path, serve=serve, looks=True)
    assert evidence.ranks[0].asked[0].files == evidence.files == {"file": 1}


def test_a_rank_that_puts_a_link_in_the_place_of_its_folder_has_no_files(tmp_path):
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "file").write_text("x")

    def drive():
        here = os.getcwd()
        os.rename(here, f"{here}.old")
        os.symlink(f"{os.path.dirname(here)}/b", here)

    evidence = launch(drive, 1, process_group=False, cwd=tmp_path / "a", looks=True)
    assert evidence.diagnosis is None
    assert evidence.files == {}


def test_the_end_is_looked_at_without_requests_and_after_a_rank_that_raised(tmp_path):
    def drive():
        Path("file").write_text("x")
        raise ValueError("no")

    evidence = launch(drive, 1, process_group=False, cwd=tmp_path, looks=True)
    assert evidence.diagnosis.kind == "raised"
    assert evidence.files == {"file": 1}


def test_nobody_looks_where_nobody_wants_it(tmp_path):
    def drive():
        ask("now")

    evidence = launch(drive, 1, process_group=False, cwd=tmp_path, serve=serve)
    assert (evidence.files, evidence.ranks[0].asked[0].files) == (None, None)


def test_a_folder_that_ends_with_the_launch_is_looked_at_too():
    def drive(rank):
        Path(f"file{rank}").write_text("x")

    evidence = launch(drive, 2, inputs=[0, 1], process_group=False, looks=True)
    assert evidence.files == {"file0": 1, "file1": 1}


def test_what_a_file_is_decides_its_size(tmp_path):
    (tmp_path / "file").write_text("four")
    (tmp_path / "link").symlink_to("file")
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "folder").mkdir()
    assert files_in(str(tmp_path)) == {"file": 4, "link": 0, "pipe": 0}


def test_what_is_found_is_bounded(tmp_path):
    deep = tmp_path.joinpath(*["d"] * (MAX_DEPTH + 2))
    deep.mkdir(parents=True)
    (deep / "file").write_text("x")
    assert files_in(str(tmp_path)) == {"/".join(["d"] * (MAX_DEPTH + 1)): 0}
    for number in range(MAX_FILES):
        (tmp_path / f"{number}").touch()
    assert files_in(str(tmp_path)) is None


def test_any_name_can_be_sent_and_printed(tmp_path):
    names = [b"\xff\n", b"n" * 2 * MAX_NAME]
    for name in names:
        open(os.path.join(os.fsencode(tmp_path), name), "w").close()
    assert sorted(files_in(str(tmp_path))) == ["n" * MAX_NAME, "\ufffd\n"]


def test_files_are_those_of_the_folder_of_that_very_name():
    files = {"rank10/a": 1, "rank1.txt": 1, "rank2/c": 1, "rank2/b/d": 1, "rank3": 0}
    assert first_below("rank1", files) is None
    assert first_below("rank2", files) == "d"
    assert first_below("rank3", files) == "rank3"


def test_requests_that_are_looked_at_are_bounded():
    log = RankLog(0, 0.0)
    serving = Serving(serve, [log], lambda *_: None, lambda rank: serving.looked(rank, {}, 1.0))
    event = ["ask", 1, encoding.encode("now")]
    for _ in range(MAX_LOOKS):
        serving.take(0, event, 1.0)
    with pytest.raises(ValueError, match="more than"):
        serving.take(0, event, 1.0)
