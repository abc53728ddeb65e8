"""A folder that appears with everything in it, or not at all."""

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from hpml.errors import UserError


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
