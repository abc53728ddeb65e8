"""What the profiler's Overview shows of a folder, as numbers."""

import warnings
from pathlib import Path

from hpml.errors import UserError
from hpml.tensorboard import run_loading


def overview(folder: Path | str) -> dict[str, float]:
    """The parts of the mean step as the view calls them, each as a share from 0 to 1.

    Of the first trace in the folder: "DataLoader", "CPU Exec", "Other"; with several ranks also
    "Communication", and with a GPU "Kernel", "Memcpy", "Memset" and "Runtime". Raises UserError
    where there is no trace, or none that can be read.
    """
    files = run_loading.trace_files(Path(folder))
    if not files:
        raise UserError(f"{folder}: no profile (*.pt.trace.json) in it")
    with warnings.catch_warnings():  # of pandas 3, about how the plugin calls it
        warnings.simplefilter("ignore")
        parsed = run_loading.profiles(files[0])
    if isinstance(parsed, str):
        raise UserError(f"{files[0].path}: {parsed}")
    (step,) = parsed[0].overview["performance"]
    return {part["name"]: part["extra"] / 100 for part in step["children"]}
