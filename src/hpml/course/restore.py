"""A notebook or script as it was handed out; what it has become is kept beside it.

A release has a copy of each in HANDED_OUT. A checkout with git needs none.
"""

import io
import zipfile
from collections.abc import Mapping
from pathlib import Path

from hpml.errors import UserError
from hpml.files import atomic

HANDED_OUT = Path(__file__).with_name("handed_out.zip")


def archive(files: Mapping[str, bytes]) -> bytes:
    """The content of HANDED_OUT, from files by their paths; the same files give the same bytes."""
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as packed:
        for name, data in sorted(files.items()):
            packed.writestr(zipfile.ZipInfo(name), data, zipfile.ZIP_DEFLATED)  # dated 1980
    return made.getvalue()


def restore(path: Path, root: Path, originals: Path = HANDED_OUT) -> Path | None:
    """Put the file back as it was handed out. Returns where the learner's own is now; None if there
    was none, or it was unchanged.

    `path` is a file's, also one that is gone, in the course's folder `root`. UserError if it was
    not handed out, or `originals` is not there.
    """
    name = _name(path, root)
    try:
        with zipfile.ZipFile(originals) as packed:
            data = packed.read(name)
    except FileNotFoundError:
        raise UserError(f"this is not a release but a checkout: git restore {name}") from None
    except KeyError:
        raise UserError(
            f"{name} was not handed out: name a file of notebooks/ or exercises/"
        ) from None
    except (OSError, zipfile.BadZipFile) as error:
        raise UserError(f"{originals.name} cannot be read ({error}): unpack the course") from None
    target, kept = root / name, None
    if target.exists():
        if target.read_bytes() == data:
            return None
        kept = _free(target)
        target.rename(kept)
    target.parent.mkdir(exist_ok=True)
    atomic.write_bytes(target, data)
    return kept


def _name(path: Path, root: Path) -> str:
    """The path in the course, also where it was typed from the course's folder but elsewhere."""
    for whole in (path.absolute(), root / path):
        if whole.resolve().is_relative_to(root.resolve()):
            return whole.resolve().relative_to(root.resolve()).as_posix()
    raise UserError(f"{path} is not in the course's folder")


def _free(target: Path) -> Path:
    """A name beside it that nothing has: 01_parallel_sgd.mine-1.ipynb."""
    number = 1
    while (free := target.with_name(f"{target.stem}.mine-{number}{target.suffix}")).exists():
        number += 1
    return free
