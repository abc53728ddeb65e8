"""md5 sums of data files, kept beside them in `MD5SUMS`."""

import hashlib
from collections.abc import Iterable
from pathlib import Path

from hpml.errors import UserError

SUMS = "MD5SUMS"  # the format of md5sum, so that `md5sum -c MD5SUMS` works


def md5(path: Path) -> str:
    """The md5 of a file, in hexadecimal."""
    digest = hashlib.md5(usedforsecurity=False)
    with path.open("rb") as file:
        while chunk := file.read(1 << 20):
            digest.update(chunk)
    return digest.hexdigest()


def write_sums(folder: Path, names: Iterable[str]) -> None:
    """Write `MD5SUMS` for the files `names` in `folder`."""
    lines = [f"{md5(folder / name)}  {name}\n" for name in sorted(names)]
    (folder / SUMS).write_text("".join(lines))


def check_sums(folder: Path, remedy: str) -> bool:
    """Compare every file that `MD5SUMS` lists (0.3 s); False when there is no `MD5SUMS`.

    Raises UserError, ending in `remedy`, for the first file that is missing or has changed.
    """
    if not (folder / SUMS).is_file():
        return False
    for line in (folder / SUMS).read_text().splitlines():
        expected, _, name = line.partition("  ")
        path = folder / Path(name).name
        found = md5(path) if path.is_file() else "none"
        if found != expected:
            raise UserError(f"cifar10: {path} has md5 {found}, expected {expected}: {remedy}")
    return True
