"""Files and folders that appear with everything in them, or not at all."""

import contextlib
import os
import secrets
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from hpml.errors import UserError


@contextmanager
def replacing(path: Path, *, durable: bool = False, meanwhile: str = "") -> Iterator[BinaryIO]:
    """A new file, open for writing, that takes the name `path` when the block ends well.

    A reader of `path` finds the old file or the whole new one. When the block raises, the old one
    stays and nothing else. The new file has the permissions of any new file. With `durable`, it is
    on the disk before it takes the name, and the name before the block is over.

    The file is in the same folder, under a name of its own, or the name `meanwhile`: then one
    process may write at a time, and what a killed one has left is overwritten. Raises OSError.
    """
    unfinished = path.with_name(meanwhile or f".{path.name}.{secrets.token_hex(4)}")
    try:
        with open(unfinished, "wb") as file:
            yield file
            if durable:
                file.flush()
                os.fsync(file.fileno())
        os.replace(unfinished, path)
    except BaseException:
        with contextlib.suppress(OSError):
            unfinished.unlink()
        raise
    if durable:
        folder = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


def write_bytes(path: Path, data: bytes, *, durable: bool = False) -> None:
    """Write a file as `replacing` does."""
    with replacing(path, durable=durable) as file:
        file.write(data)


def create(path: Path, data: bytes, *, private: bool = False) -> bool:
    """Write a file whole, unless there is one already; returns whether it was written.

    Of several processes, also on several nodes, one does. With `private`, only its owner may read
    it; else it has the permissions of any new file. Raises OSError.
    """
    unfinished = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    mode = 0o600 if private else 0o666
    try:
        with open(os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.link(unfinished, path)  # unlike a rename, fails where there is a file
    except FileExistsError:
        return False
    finally:
        unfinished.unlink(missing_ok=True)
    return True


def write_text(path: Path, text: str) -> None:
    """Write a file of UTF-8 as `replacing` does."""
    write_bytes(path, text.encode())


@contextmanager
def whole_folder(target: Path) -> Iterator[Path]:
    """A temporary folder beside `target` to write in; renamed to `target` when the block ends well.

    When `target` has appeared in the meantime (another rank was faster), that one stays. When the
    block raises, nothing stays. Raises UserError where there is no room or no right to write.
    """
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        made = Path(tempfile.mkdtemp(prefix=".making-", dir=target.parent))
    except OSError as error:
        raise unwritable(target, error) from None
    try:
        yield made
        made.chmod(0o755)
        try:
            os.rename(made, target)
        except OSError:
            if not target.is_dir():
                raise
    except OSError as error:
        raise unwritable(target, error) from None
    finally:
        shutil.rmtree(made, ignore_errors=True)


def unwritable(path: Path, error: OSError) -> UserError:
    """What to say when `path` cannot be written."""
    return UserError(
        f"data: {path} cannot be written ({error.strerror or error}): "
        "make room there, or name another folder by HPML_HOME"
    )
