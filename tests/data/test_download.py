import hashlib
import io
import socket
import tarfile

import pytest

from hpml.data.checksum import check_sums
from hpml.data.download import ARCHIVES, Archive, download, fetch
from hpml.errors import UserError

FILES = {"one.bin": b"1" * 100_000, "two.bin": bytes(range(256)) * 700, "names.txt": b"a b c\n"}


def packed(members: dict[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as tar:
        for name, content in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            tar.addfile(info, io.BytesIO(content))
    return buffer.getvalue()


def archive_of(content: bytes, files: tuple[str, ...] = tuple(FILES)) -> Archive:
    return Archive("set.tar.gz", hashlib.md5(content).hexdigest(), "batches", files)


@pytest.fixture
def content() -> bytes:
    return packed({f"batches/{name}": content for name, content in FILES.items()})


@pytest.fixture
def offered(server, content):
    server.files["set.tar.gz"] = content
    return server


def unpacked(folder) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.name in FILES}


def test_the_official_archives_are_the_ones_expected():
    assert ARCHIVES["binary"].md5 == "c32a1d4ab5d03f1284b67883e8d87530"
    assert ARCHIVES["python"].md5 == "c58f30108f718f92721af3b95e74349a"


def test_a_download_is_verified_unpacked_and_leaves_nothing_half_done(offered, content, tmp_path):
    seen = []
    folder = download(
        tmp_path / "new",
        archive_of(content),
        address=offered.address,
        progress=lambda done, total: seen.append((done, total)),
    )
    assert folder == tmp_path / "new" / "batches"
    assert unpacked(folder) == FILES
    assert check_sums(folder, "remedy")
    assert seen[-1] == (len(content), len(content))
    assert sorted(p.name for p in folder.parent.iterdir()) == ["batches", "set.tar.gz"]
    assert sorted(p.name for p in folder.iterdir()) == sorted([*FILES, "MD5SUMS"])


def test_a_transfer_that_breaks_off_goes_on_where_it_stopped(offered, content, tmp_path):
    offered.break_after = 100
    for arrived in (100, 200):
        with pytest.raises(UserError, match=rf"broke off after {arrived} bytes, which are kept"):
            download(tmp_path, archive_of(content), address=offered.address)
        assert (tmp_path / "set.tar.gz.part").read_bytes() == content[:arrived]
        assert not (tmp_path / "batches").exists()
    offered.break_after = None
    folder = download(tmp_path, archive_of(content), address=offered.address)
    assert unpacked(folder) == FILES
    assert offered.asked == [None, "bytes=100-", "bytes=200-"]


def test_a_server_without_ranges_starts_over(offered, content, tmp_path):
    offered.ranges = False
    (tmp_path / "set.tar.gz.part").write_bytes(content[:50])
    assert unpacked(download(tmp_path, archive_of(content), address=offered.address)) == FILES


def test_a_part_that_was_complete_already_is_used(offered, content, tmp_path):
    (tmp_path / "set.tar.gz.part").write_bytes(content)
    assert unpacked(download(tmp_path, archive_of(content), address=offered.address)) == FILES


def test_what_is_not_the_archive_is_deleted_and_never_unpacked(offered, content, tmp_path):
    offered.files["set.tar.gz"] = content[:-1] + b"?"
    with pytest.raises(
        UserError, match=r"arrived with md5 \w{32}, expected \w{32}: it was deleted"
    ):
        download(tmp_path, archive_of(content), address=offered.address)
    assert list(tmp_path.iterdir()) == [tmp_path / "home"] * (tmp_path / "home").exists()


def test_an_archive_placed_by_hand_is_used_without_the_network(content, tmp_path):
    (tmp_path / "set.tar.gz").write_bytes(content)
    folder = download(tmp_path, archive_of(content), address="http://127.0.0.1:1")
    assert unpacked(folder) == FILES


def test_a_damaged_archive_placed_by_hand_is_named(content, tmp_path):
    (tmp_path / "set.tar.gz").write_bytes(content[:-1])
    with pytest.raises(UserError, match=r"set\.tar\.gz has md5 .*: delete it and run"):
        download(tmp_path, archive_of(content), address="http://127.0.0.1:1")


def test_without_a_network_one_line_has_the_remedy(tmp_path):
    with socket.socket() as taken:  # bound, and nobody listens
        taken.bind(("127.0.0.1", 0))
        address = f"http://127.0.0.1:{taken.getsockname()[1]}"
        with pytest.raises(UserError) as error:
            download(tmp_path, address=address)
    text = str(error.value)
    assert "\n" not in text
    for part in ("cannot be reached", str(tmp_path), "HPML_DATA", "--data", "SYNTHETIC"):
        assert part in text


def test_an_address_without_the_archive_is_reported(server, tmp_path):
    with pytest.raises(UserError, match=r"set\.tar\.gz answers 404 Not Found: put the archive"):
        fetch(f"{server.address}/set.tar.gz", tmp_path / "part")


def test_a_hostile_archive_writes_nothing_outside(offered, tmp_path):
    hostile = {f"batches/{name}": content for name, content in FILES.items()}
    hostile |= {"../outside.txt": b"x", "/tmp/../outside.txt": b"x", "batches/extra.sh": b"x"}
    hostile |= {"batches/../one.bin": b"x", "elsewhere/one.bin": b"x"}
    content = offered.files["set.tar.gz"] = packed(hostile)
    below = tmp_path / "a" / "b"
    folder = download(below, archive_of(content), address=offered.address)
    assert unpacked(folder) == FILES
    written = {path.name for path in (tmp_path / "a").rglob("*") if path.is_file()}
    assert written == {*FILES, "MD5SUMS", "set.tar.gz"}


def test_a_link_in_an_archive_is_not_followed(offered, tmp_path):
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as tar:
        link = tarfile.TarInfo("batches/one.bin")
        link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
        tar.addfile(link)
    content = offered.files["set.tar.gz"] = buffer.getvalue()
    with pytest.raises(UserError, match=r"has no one\.bin in it"):
        download(tmp_path, archive_of(content, ("one.bin",)), address=offered.address)
    assert not (tmp_path / "batches" / "one.bin").exists()


def test_unpacking_again_replaces_a_damaged_file_and_keeps_others(offered, content, tmp_path):
    folder = download(tmp_path, archive_of(content), address=offered.address)
    (folder / "one.bin").write_bytes(b"short")
    (folder / "notes").write_text("mine")
    with pytest.raises(UserError, match=r"one\.bin has md5 \w+, expected \w+: mend it"):
        check_sums(folder, "mend it")
    download(tmp_path, archive_of(content), address=offered.address)
    assert check_sums(folder, "mend it")
    assert (folder / "notes").read_text() == "mine"
    assert len(offered.asked) == 1
