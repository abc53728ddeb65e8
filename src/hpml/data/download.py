"""Download CIFAR-10 from its official address: resumable, verified, and all or nothing."""

import errno
import gzip
import http.client
import os
import shutil
import tarfile
import tempfile
import urllib.error
import urllib.request
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from hpml.data.checksum import SUMS, md5, write_sums
from hpml.data.cifar10 import BINARY, NAMES, PYTHON, TEST, TRAIN
from hpml.data.python_layout import FILES as PYTHON_FILES
from hpml.errors import UserError
from hpml.files.atomic import unwritable

ADDRESS = "https://www.cs.toronto.edu/~kriz"
TIMEOUT = 30.0  # seconds without a byte
CHUNK = 1 << 20

Progress = Callable[[int, int], None]
_UNWRITABLE = (errno.ENOSPC, errno.EDQUOT, errno.EACCES, errno.EROFS)


@dataclass(frozen=True)
class Archive:
    """One official archive: its file name, md5, the folder in it, and the files that are needed."""

    name: str
    md5: str
    folder: str
    files: tuple[str, ...]


ARCHIVES = {
    "binary": Archive(
        "cifar-10-binary.tar.gz",
        "c32a1d4ab5d03f1284b67883e8d87530",
        BINARY,
        (*TRAIN, *TEST, NAMES),
    ),
    "python": Archive(
        "cifar-10-python.tar.gz",
        "c58f30108f718f92721af3b95e74349a",
        PYTHON,
        PYTHON_FILES,
    ),
}


def download(
    folder: Path,
    archive: Archive = ARCHIVES["binary"],
    *,
    into: Path | None = None,
    address: str | None = None,
    progress: Progress | None = None,
) -> Path:
    """Fetch `archive` into `folder`, check its md5, and unpack it; returns the folder of the files.

    They go into `into`, by default the official folder name in `folder`; damaged ones are replaced.
    What has arrived is kept in a `.part` file, where the next call resumes. An archive that was put
    into `folder` by hand is used. `progress(done, total)` is called with bytes; total is 0 where
    the server does not send it.

    Raises UserError, in one line with the remedy, when the address cannot be reached, the transfer
    breaks off, or what arrived is not the official archive.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise unwritable(folder, error) from None
    packed = folder / archive.name
    if not packed.exists():
        part = packed.with_name(packed.name + ".part")
        fetch(f"{address or ADDRESS}/{archive.name}", part, progress)
        found = md5(part)
        if found != archive.md5:
            part.unlink()
            raise UserError(
                f"cifar10: {archive.name} arrived with md5 {found}, expected {archive.md5}: "
                "it was deleted; run ./hpml data again"
            )
        os.replace(part, packed)
    elif (found := md5(packed)) != archive.md5:
        raise UserError(
            f"cifar10: {packed} has md5 {found}, expected {archive.md5}: "
            "delete it and run ./hpml data"
        )
    target = into or folder / archive.folder
    try:
        unpack(packed, archive, target)
    except OSError as error:
        raise unwritable(target, error) from None
    return target


def fetch(url: str, part: Path, progress: Progress | None = None) -> None:
    """Bring `part` to the length of `url`, from the byte where it stops now (RFC 9110, 14.2).

    Raises UserError when the address cannot be reached or the transfer breaks off; what has arrived
    stays in `part`.
    """
    have = part.stat().st_size if part.exists() else 0
    request = urllib.request.Request(url, headers={"Range": f"bytes={have}-"} if have else {})
    try:
        with urllib.request.urlopen(request, timeout=TIMEOUT) as response:
            if response.status != 206:  # the server ignores Range and sends everything
                have = 0
            length = response.headers.get("Content-Length")
            total = have + int(length) if length else 0
            with part.open("ab" if have else "wb") as file:
                while chunk := response.read1(CHUNK):
                    file.write(chunk)
                    have += len(chunk)
                    if progress:
                        progress(have, total)
    except urllib.error.HTTPError as error:
        if error.code == 416:  # no bytes after those in the file: it is complete
            return
        raise UserError(
            _offline(f"{url} answers {error.code} {error.reason}", part.parent)
        ) from None
    except (OSError, http.client.HTTPException) as error:
        if isinstance(error, OSError) and error.errno in _UNWRITABLE:
            raise unwritable(part, error) from None
        if have:
            raise UserError(_broken_off(url, have)) from None
        reason = getattr(error, "reason", None) or error
        raise UserError(_offline(f"{url} cannot be reached ({reason})", part.parent)) from None
    if total and have < total:
        raise UserError(_broken_off(url, have))


def unpack(packed: Path, archive: Archive, target: Path) -> None:
    """Put the files of `archive` into `target`, each one whole, with their md5 sums in `MD5SUMS`.

    Only the needed regular files are taken, by name, so that an archive cannot write anywhere else.

    Raises UserError when a file is missing from the archive or the archive is damaged.
    """
    target.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".unpacking-", dir=target) as name:
        fresh = Path(name)
        try:
            with tarfile.open(packed, "r:gz") as tar:
                for member in tar:
                    folder, _, name = member.name.removeprefix("./").rpartition("/")
                    if folder == archive.folder and name in archive.files and member.isfile():
                        packed_file = tar.extractfile(member)
                        assert packed_file is not None  # it is a file
                        with packed_file as source, (fresh / name).open("wb") as out:
                            shutil.copyfileobj(source, out, CHUNK)
        except (tarfile.TarError, EOFError, gzip.BadGzipFile, zlib.error) as error:
            raise UserError(
                f"cifar10: {packed} cannot be unpacked ({error}): delete it and run ./hpml data"
            ) from None
        if missing := set(archive.files) - {path.name for path in fresh.iterdir()}:
            raise UserError(
                f"cifar10: {packed} has no {min(missing)} in it: delete it and run ./hpml data"
            )
        write_sums(fresh, archive.files)
        for name in (*archive.files, SUMS):  # replaces damaged files, keeps any others
            os.replace(fresh / name, target / name)


def _broken_off(url: str, have: int) -> str:
    return (
        f"cifar10: the transfer of {url} broke off after {have} bytes, which are kept: "
        "run ./hpml data again to go on from there"
    )


def _offline(finding: str, folder: Path) -> str:
    return (
        f"cifar10: {finding}: put the archive into {folder} by hand and run ./hpml data again, "
        f"or name a folder that has {BINARY} by HPML_DATA or --data; "
        "until then SYNTHETIC images are used"
    )
