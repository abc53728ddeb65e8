"""CIFAR-10 in small: files of 100 records, otherwise as the official ones."""

import http.server
import os
import pickle
import struct
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

from hpml.data import cifar10, python_layout, synthetic
from hpml.data.cifar10 import BINARY, CLASSES, NAMES, PYTHON, TEST, TRAIN

SMALL = 100
OFFICIAL = cifar10.RECORDS_PER_FILE * cifar10.RECORD  # taken before `small` changes it


@pytest.fixture(scope="module", autouse=True)
def small() -> Iterator[None]:
    """Files have 100 records: tests write them by the dozen, and 180 MB each time is slow."""
    with pytest.MonkeyPatch.context() as patch:
        for module in (cifar10, python_layout, synthetic):
            patch.setattr(module, "RECORDS_PER_FILE", SMALL)
        yield


@pytest.fixture(autouse=True)
def own_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HPML_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("HPML_DATA", raising=False)
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    return tmp_path / "home"


@pytest.fixture(scope="session")
def records() -> dict[str, np.ndarray]:
    """By file name: records uint8 [100, 3073], 10 of each class in every file."""
    generator = np.random.default_rng(0)
    made = {}
    for name in (*TRAIN, *TEST):
        made[name] = generator.integers(0, 256, (SMALL, 3073), np.uint8)
        made[name][:, 0] = generator.permutation(np.arange(SMALL) % 10)
    return made


@pytest.fixture(scope="session")
def whole(records: dict[str, np.ndarray], tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("whole") / BINARY
    folder.mkdir()
    for name, content in records.items():
        content.tofile(folder / name)
    (folder / NAMES).write_text("\n".join(CLASSES) + "\n\n")  # the official file ends so
    return folder


@pytest.fixture
def binary(whole: Path, tmp_path: Path) -> Path:
    """A binary layout to damage: links, so replace files in it and never write into them."""
    return _linked(whole, tmp_path / "data" / BINARY)


@pytest.fixture(scope="session")
def whole_python(records: dict[str, np.ndarray], tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("whole") / PYTHON
    folder.mkdir()
    for name, content in records.items():
        (folder / name.removesuffix(".bin")).write_bytes(python2_batch(content))
    names = {"num_cases_per_batch": SMALL, "label_names": [name.encode() for name in CLASSES]}
    (folder / "batches.meta").write_bytes(pickle.dumps(names, protocol=2))
    return folder


@pytest.fixture
def python(whole_python: Path, tmp_path: Path) -> Path:
    """A python layout to damage: links, so replace files in it and never write into them."""
    return _linked(whole_python, tmp_path / "data" / PYTHON)


def _linked(source: Path, target: Path) -> Path:
    target.mkdir(parents=True)
    for path in source.iterdir():
        os.link(path, target / path.name)
    return target


@pytest.fixture
def replace() -> Callable[[Path, bytes], None]:
    def write(path: Path, content: bytes) -> None:
        path.unlink(missing_ok=True)
        path.write_bytes(content)

    return write


def python2_batch(records: np.ndarray) -> bytes:
    """The pickle that Python 2 wrote for a batch of the official files, opcode by opcode."""

    def text(value: bytes) -> bytes:
        return b"U" + bytes([len(value)]) + value

    pixels = records[:, 1:].tobytes()
    dtype = b"cnumpy\ndtype\n" + text(b"u1") + b"K\x00K\x01\x87R"
    dtype += b"(K\x03" + text(b"|") + b"NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00tb"
    shape = b"M" + struct.pack("<H", len(records)) + b"M" + struct.pack("<H", 3072) + b"\x86"
    array = b"cnumpy.core.multiarray\n_reconstruct\ncnumpy\nndarray\nK\x00\x85" + text(b"b")
    array += b"\x87R(K\x01" + shape + dtype + b"\x89"
    array += b"T" + struct.pack("<i", len(pixels)) + pixels + b"tb"
    labels = b"](" + b"".join(b"K" + bytes([label]) for label in records[:, 0]) + b"e"
    return b"\x80\x02}(" + text(b"data") + array + text(b"labels") + labels + b"u."


class Server(http.server.ThreadingHTTPServer):
    """Serves the bytes in `files`; closes after `break_after` bytes; notes the ranges asked for."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.files: dict[str, bytes] = {}
        self.break_after: int | None = None
        self.ranges = True
        self.asked: list[str | None] = []

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


class _Handler(http.server.BaseHTTPRequestHandler):
    server: Server

    def do_GET(self) -> None:
        content = self.server.files.get(self.path.lstrip("/"))
        asked = self.headers.get("Range")
        self.server.asked.append(asked)
        if content is None:
            self.send_error(404)
            return
        start = 0
        if asked and self.server.ranges:
            start = int(asked.removeprefix("bytes=").rstrip("-"))
            if start >= len(content):
                self.send_error(416)
                return
        self.send_response(206 if asked and self.server.ranges else 200)
        self.send_header("Content-Length", str(len(content) - start))
        self.end_headers()
        self.wfile.write(content[start:][: self.server.break_after])

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def server() -> Iterator[Server]:
    with Server() as running:
        thread = threading.Thread(target=running.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield running
        running.shutdown()
        thread.join(timeout=10)
