"""Which images to use: those asked for, those downloaded, or generated ones."""

import os
from dataclasses import replace
from pathlib import Path

from hpml.data import python_layout, synthetic
from hpml.data.checksum import check_sums
from hpml.data.cifar10 import BINARY, NAMES, PYTHON, TEST, TRAIN, Data, open_binary, remedy
from hpml.errors import UserError
from hpml.paths import INSTALLED, home


def load(path: str | os.PathLike[str] | None = None) -> Data:
    """CIFAR-10 from `path`, else `HPML_DATA`, else `HPML_HOME/data`, else where the course that
    this is a copy of has it; else the synthetic set.

    `path` is the folder with the files, in the binary or the python layout, or the folder above it.
    Files are checked for size, labels and class names on the way, and mapped, not read. The python
    layout is converted once, into `HPML_HOME`.

    Raises UserError, in one line with the remedy, when `path` or `HPML_DATA` is given and has no
    data, and when data that is found is damaged. With nothing given and nothing found, the
    synthetic set is returned (`Data.synthetic`), generated first if need be (4 s).
    """
    folder = find(path)
    if folder is None:
        return open_binary(synthetic.ensure())
    if is_binary(folder):
        return open_binary(folder)
    data = open_binary(python_layout.convert(folder))
    return replace(data, source=folder, layout="python")


def verify(folder: Path) -> bool:
    """Check the files in `folder`, which `find` found.

    Sizes, labels, counts and class names; and every byte if the download's `MD5SUMS` is there, in
    which case it returns True. Raises UserError, in one line, for the first fault.
    """
    if is_binary(folder):
        summed = check_sums(folder, remedy(folder))
        open_binary(folder)
    else:
        summed = check_sums(folder, python_layout.REMEDY)
        python_layout.convert(folder)
    return summed


def find(path: str | os.PathLike[str] | None = None) -> Path | None:
    """The folder with the data files, unopened; None where there is none.

    Raises UserError when `path` or `HPML_DATA` is given and has no data.
    """
    for asked, where in (("--data", path), ("HPML_DATA", os.environ.get("HPML_DATA"))):
        if where:
            folder = Path(where).expanduser().resolve()
            found = find_in(folder)
            if found is None:
                raise UserError(_nothing_in(folder, asked))
            return found
    return find_in(home() / "data") or find_in(INSTALLED / ".hpml" / "data")


def find_in(folder: Path, layout: str | None = None) -> Path | None:
    """`folder` or the official folder in it: the first with a file of `layout`, or of either."""
    for candidate in (folder, folder / BINARY, folder / PYTHON):
        if layout != "python" and is_binary(candidate):
            return candidate
        if layout != "binary" and _has(candidate, python_layout.FILES):
            return candidate
    return None


def download_folder(path: Path | None = None) -> Path:
    """Where a download goes: `path`, else `HPML_DATA`, else `HPML_HOME/data`."""
    asked = path or os.environ.get("HPML_DATA") or home() / "data"
    folder = Path(asked).expanduser().resolve()
    return folder.parent if folder.name in (BINARY, PYTHON) else folder


def is_binary(folder: Path) -> bool:
    """Whether at least one file of the binary layout is in `folder`."""
    return _has(folder, (*TRAIN, *TEST, NAMES))


def _has(folder: Path, names: tuple[str, ...]) -> bool:
    return any((folder / name).is_file() for name in names)


def _nothing_in(folder: Path, asked: str) -> str:
    if not folder.exists():
        finding = "does not exist"
    elif not folder.is_dir():
        finding = "is not a folder"
    else:
        finding = "has no CIFAR-10 files"
    return (
        f"cifar10: {asked} {folder} {finding}: name the folder with {BINARY} or {PYTHON} in it, "
        f"or leave {asked} out to use what ./hpml data downloads"
    )
