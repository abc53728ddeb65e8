"""High Performance Machine Learning, day 2: the library behind the notebooks.

In a notebook: `%load_ext hpml`, then `%%ranks`, `%%answer` and `check`.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell

    from hpml.notebook import check
    from hpml.ranks import launch

__version__ = "0.1.0"
__all__ = ["check", "launch"]


def __getattr__(name: str) -> Any:
    # Lazily: importing hpml must not import torch or IPython.
    if name == "check":
        from hpml.notebook import check

        return check
    if name == "launch":
        from hpml.ranks import launch

        return launch
    raise AttributeError(f"module 'hpml' has no attribute {name!r}")


def load_ipython_extension(shell: "InteractiveShell") -> None:
    """`%load_ext hpml`."""
    from hpml.notebook import load_ipython_extension

    load_ipython_extension(shell)
