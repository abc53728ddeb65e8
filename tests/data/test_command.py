import dataclasses
import hashlib
import io
import tarfile

import pytest
import typer
from typer.testing import CliRunner

from hpml.cli.data_command import data as command
from hpml.data import download, load
from hpml.data.cifar10 import BINARY
from hpml.errors import UserError


def run(*arguments: str) -> str:
    app = typer.Typer()
    app.command()(command)
    result = CliRunner().invoke(app, arguments)
    if result.exception:
        raise result.exception
    return result.stdout


@pytest.fixture(scope="session")
def archive(whole) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz", compresslevel=1) as tar:
        tar.add(whole, BINARY)
    return buffer.getvalue()


@pytest.fixture
def official(archive, server, monkeypatch):
    """The official address, as if it were on this machine."""
    ours = download.ARCHIVES["binary"]
    ours = dataclasses.replace(ours, md5=hashlib.md5(archive).hexdigest())
    monkeypatch.setitem(download.ARCHIVES, "binary", ours)
    monkeypatch.setattr(download, "ADDRESS", server.address)
    server.files[ours.name] = archive
    return server


def test_it_downloads_once_and_reports_what_and_where(official, own_home):
    folder = own_home / "data" / BINARY
    text = run()
    assert text.startswith(f"real CIFAR-10, binary layout, from {folder}\n")
    assert "md5 of every file is right" in text
    assert run() == text
    assert run("--verify") == text
    assert len(official.asked) == 1
    assert load().folder == folder


def test_a_damaged_file_is_found_and_mended(official, own_home):
    run()
    path = own_home / "data" / BINARY / "data_batch_3.bin"
    content = bytearray(path.read_bytes())
    content[1000] ^= 1
    path.write_bytes(content)
    with pytest.raises(UserError, match=r"data_batch_3\.bin has md5 .*: delete it and run"):
        run("--verify")
    assert "data_batch_3.bin has md5" in run()
    assert "md5 of every file is right" in run("--verify")


def test_images_that_are_there_are_verified_and_left_alone(official, binary, monkeypatch):
    monkeypatch.setenv("HPML_DATA", str(binary.parent))
    text = run()
    assert text.startswith(f"real CIFAR-10, binary layout, from {binary}\n")
    assert "no md5 sums to compare with" in text
    assert official.asked == []


def test_the_folder_can_be_named(official, tmp_path):
    assert f"from {tmp_path / 'mine' / BINARY}\n" in run("--data", str(tmp_path / "mine"))


def test_verify_without_images_is_wrong_usage():
    with pytest.raises(UserError, match=r"no images to verify: run \./hpml data"):
        run("--verify")


def test_the_synthetic_set_can_be_made_beforehand(own_home):
    text = run("--synthetic")
    assert text.startswith("SYNTHETIC images")
    assert "md5 of every file is right" in text
    assert load().synthetic


def test_without_a_network_the_line_names_the_synthetic_images(own_home, monkeypatch):
    monkeypatch.setattr(download, "ADDRESS", "http://127.0.0.1:1")
    with pytest.raises(UserError, match=r"cannot be reached .*SYNTHETIC images are used$"):
        run()
