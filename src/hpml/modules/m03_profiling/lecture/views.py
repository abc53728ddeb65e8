"""The profiler's views: the Overview as numbers, and pictures for a reader without a browser.

The pictures were taken by `./hpml tensorboard LOGDIR --pictures DIR`, of two runs that differ in
how images are loaded, of two ranks, and of the good loop that was recorded on a GPU
(src/hpml/recorded).
"""

import warnings
from pathlib import Path

from hpml.errors import UserError
from hpml.tensorboard import run_loading

FOLDER = Path(__file__).parent / "screenshots"
# View: what can be seen in its picture
VIEWS = {
    "overview": "Overview: three quarters of each of four steps are time in the DataLoader, and "
    "the recommendation is to load with several processes.",
    "operator": "Operator: the ten operators with the most time of their own as a ring, and a "
    "table of all with calls and times.",
    "memory": "Memory: allocated megabytes over time, up to 12.8 MB in each forward and backward, "
    "and which operators allocated them.",
    "module": "Module: time of each layer, and all events of the steps as bars in layers.",
    "distributed": "Distributed: computation, overlap and communication of two ranks, and how "
    "long each one waited for the other.",
    "difference": "Diff: the steps of a slow and of a fixed run side by side; the time saved "
    "adds up, in the DataLoader above all.",
    "kernel": "GPU Kernel: the ten kernels with the most time in the second loop of section 12, on "
    "an H200: first of all pooling, then convolutions. The share on Tensor Cores is not true: all "
    "kernels named sm90_xmma run on them, and the view's list does not have them.",
}


def show(*names: str) -> None:
    """Show the pictures of these views, each under its name. Raises KeyError for an unknown one."""
    from IPython.display import Image, Markdown, display

    for name in names:
        view, seen = VIEWS[name].split(": ", 1)
        display(Markdown(f"**{view}**: {seen}"))
        display(Image((FOLDER / f"{name}.png").read_bytes(), alt=VIEWS[name]))


def overview(folder: Path | str) -> dict[str, float]:
    """The parts of the mean step as the Overview calls them, each as a share from 0 to 1.

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
