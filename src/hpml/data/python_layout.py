"""The python layout of CIFAR-10: pickles, read without running what is in them.

The layout (https://www.cs.toronto.edu/~kriz/cifar.html): `data_batch_1` to `data_batch_5` and
`test_batch`, each a pickled dict with `data`, a uint8 array [10000, 3072], and `labels`, a list of
10,000 integers; `batches.meta` has `label_names`. A pickle may call anything that it can import.
Here it may name only the few callables that a pickled uint8 array needs, and gets inert stand-ins
for them.
"""

import hashlib
import pickle
from pathlib import Path

import numpy as np

from hpml.data.cifar10 import BINARY, CONVERTED, NAMES, RECORDS_PER_FILE, TEST, TRAIN, open_binary
from hpml.data.mapped import RECORD
from hpml.errors import UserError
from hpml.files.atomic import whole_folder
from hpml.paths import home

BATCHES = tuple(name.removesuffix(".bin") for name in (*TRAIN, *TEST))
META = "batches.meta"
FILES = (*BATCHES, META)
REMEDY = "delete it and run ./hpml data --layout python"


def convert(folder: Path) -> Path:
    """Convert to the binary layout in `HPML_HOME`, once as long as `folder` does not change.

    Raises UserError, in one line with the remedy, when a file is missing or damaged.
    """
    state = [str(folder)]
    for name in FILES:
        if not (folder / name).is_file():
            raise UserError(
                f"cifar10: {name} is missing from {folder}: run ./hpml data --layout python"
            )
        status = (folder / name).stat()
        state.append(f"{name} {status.st_size} {status.st_mtime_ns}")
    key = hashlib.sha256("\n".join(state).encode()).hexdigest()[:12]
    target = home() / "data" / f"converted-{key}" / BINARY
    if not target.is_dir():
        with whole_folder(target) as made:
            for name in BATCHES:
                read_batch(folder / name).tofile(made / f"{name}.bin")
            (made / NAMES).write_text("\n".join(_class_names(folder / META)) + "\n")
            (made / CONVERTED).write_text(f"The binary layout of the images in {folder}.\n")
            try:
                open_binary(made)
            except UserError as error:
                finding = str(error).replace(f"{made}/", "").removeprefix("cifar10: ")
                raise UserError(
                    f"cifar10: {folder}, converted: {finding.split(': ')[0]}: "
                    "delete it and run ./hpml data --layout python"
                ) from None
    return target


def read_batch(path: Path) -> np.ndarray:
    """The records of one batch file, uint8 [10000, 3073]: label byte, then pixels.

    Raises UserError when the file is not a CIFAR-10 batch.
    """
    content = read_plain(path)
    pixels, labels = content.get(b"data"), content.get(b"labels")
    count, size = RECORDS_PER_FILE, RECORD - 1
    if not isinstance(pixels, _Array) or pixels.shape != (count, size):
        raise UserError(f"cifar10: {path} has no uint8 array [{count}, {size}] in it: {REMEDY}")
    if not isinstance(labels, list) or len(labels) != count:
        raise UserError(f"cifar10: {path} has no list of {count} labels in it: {REMEDY}")
    for row, label in enumerate(labels):
        if type(label) is not int or not 0 <= label <= 9:
            raise UserError(
                f"cifar10: {path} has label {label!r:.20} in row {row}, expected 0 to 9: {REMEDY}"
            )
    out = np.empty((count, RECORD), np.uint8)
    out[:, 0] = labels
    out[:, 1:] = np.frombuffer(pixels.content, np.uint8).reshape(count, size)
    return out


def read_plain(path: Path) -> dict:
    """A pickled dict of plain values and uint8 arrays; text is bytes, as Python 2 wrote it.

    Raises UserError when the pickle names any other callable, or is damaged.
    """
    if path.stat().st_size > 64 * 2**20:
        raise UserError(
            f"cifar10: {path} is {path.stat().st_size} bytes, expected 31 million: {REMEDY}"
        )
    try:
        with path.open("rb") as file:
            content = _PlainUnpickler(file, encoding="bytes").load()
    except _Forbidden as error:
        raise UserError(
            f"cifar10: {path} asks to run {error}, which no image file needs; "
            f"nothing of it was run: {REMEDY}"
        ) from None
    except Exception as error:  # a damaged pickle may raise anything
        raise UserError(
            f"cifar10: {path} cannot be read ({type(error).__name__}): {REMEDY}"
        ) from None
    if not isinstance(content, dict):
        raise UserError(f"cifar10: {path} has no dict in it: {REMEDY}")
    return {key.encode() if isinstance(key, str) else key: value for key, value in content.items()}


class _Forbidden(pickle.UnpicklingError):
    pass


class _Dtype:
    """Stands for numpy.dtype: only uint8 is let through."""

    def __init__(self, name: object, *_: object):
        if name not in (b"u1", "u1", b"|u1", "|u1"):
            raise pickle.UnpicklingError(f"dtype {name!r:.20}")

    def __setstate__(self, state: object) -> None:
        pass


class _Array:
    """Stands for numpy.ndarray: the shape and the bytes that make one."""

    shape: tuple[int, ...] = ()
    content: bytes = b""

    def __setstate__(self, state: tuple) -> None:
        _, shape, dtype, column_major, content = state
        if not (isinstance(dtype, _Dtype) and isinstance(content, bytes) and len(shape) == 2):
            raise pickle.UnpicklingError("not an array of uint8")
        if column_major or shape[0] * shape[1] != len(content):
            raise pickle.UnpicklingError("array of another shape")
        self.shape, self.content = tuple(shape), content


def _reconstruct(*_: object) -> _Array:
    return _Array()


def _latin1(text: object, encoding: object) -> bytes:
    """Stands for codecs.encode, by which Python 3 writes bytes in an old protocol."""
    if not isinstance(text, str) or encoding not in ("latin1", b"latin1"):
        raise pickle.UnpicklingError("not bytes")
    return text.encode("latin1")


class _PlainUnpickler(pickle.Unpickler):
    ALLOWED = {  # noqa: RUF012
        ("numpy.core.multiarray", "_reconstruct"): _reconstruct,
        ("numpy._core.multiarray", "_reconstruct"): _reconstruct,
        ("numpy", "ndarray"): _Array,
        ("numpy", "dtype"): _Dtype,
        ("_codecs", "encode"): _latin1,
    }

    def find_class(self, module: str, name: str) -> object:
        try:
            return self.ALLOWED[module, name]
        except KeyError:
            raise _Forbidden(f"{module}.{name}") from None


def _class_names(path: Path) -> list[str]:
    names = read_plain(path).get(b"label_names")
    if not isinstance(names, list):
        raise UserError(f"cifar10: {path} has no class names in it: {REMEDY}")
    return [
        name.decode("ascii", "replace") if isinstance(name, bytes) else str(name) for name in names
    ]
