"""Horovod's source as PyPI has it, with our patch."""

import hashlib
import os
import sys
import tarfile
from pathlib import Path

from hpml.errors import UserError
from hpml.horovod import VERSION, cache, command, patch
from hpml.horovod.flavour import PATCH

ARCHIVE = f"horovod-{VERSION}.tar.gz"
SHA256 = "92a43f5a94c43907a56805bad15f19700c62ffc83b7ca483f9e104e229f67ef0"
_LIMIT = 600.0  # seconds for 3.5 MB


def fetch(log: Path) -> Path:
    """The archive in the cache's folder; pip downloads it unless it is there already.

    Raises UserError where pip cannot download it.
    """
    archive = cache.folder() / ARCHIVE
    if archive.is_file() and _is_official(archive):
        return archive
    with cache.work_folder() as folder:
        wanted = folder / "source.txt"
        wanted.write_text(f"horovod=={VERSION} --hash=sha256:{SHA256}\n")
        options = ["--no-deps", "--no-build-isolation", "--no-binary", "horovod", "--no-input"]
        places = ["-r", str(wanted), "-d", str(folder)]
        pip = [sys.executable, "-m", "pip", "download", *options, *places]
        try:
            status = command.run(pip, limit=_LIMIT, log=log)
        except TimeoutError:
            status = 1
        found = folder / ARCHIVE
        if status or not found.is_file() or not _is_official(found):
            raise UserError(
                f"horovod: pip cannot download {ARCHIVE} (see {log}): "
                f"make PyPI reachable, or put the file into {cache.folder()}"
            )
        os.replace(found, archive)
    return archive


def unpack(archive: Path, into: Path) -> Path:
    """The folder with the patched source."""
    with tarfile.open(archive) as tar:
        tar.extraction_filter = getattr(tarfile, "data_filter", lambda member, path: member)
        tar.extractall(into)
    root = into / f"horovod-{VERSION}"
    patch.apply(PATCH, root)
    return root


def _is_official(archive: Path) -> bool:
    return hashlib.sha256(archive.read_bytes()).hexdigest() == SHA256
