"""JupyterLab for the course: its settings, and the command that starts it.

It does not use the internet: no news, no update check, no extension catalogue.
"""

import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

SETTINGS = Path(__file__).with_name("lab_settings")
STANDING = "HPML_STANDING"  # set: a verdict that passes is followed by what is done and next


def command(first: Path, extra: Sequence[str] = ()) -> list[str]:
    """The command for JupyterLab at the notebook `first`, relative to the course's folder; `extra`
    arguments override ours."""
    root = ["--allow-root"] if hasattr(os, "geteuid") and os.geteuid() == 0 else []
    return [
        sys.executable, "-m", "jupyterlab",
        f"--LabApp.default_url=/lab/tree/{first.as_posix()}",
        "--LabApp.news_url=None",
        "--LabApp.check_for_updates_class=jupyterlab.NeverCheckForUpdate",
        "--LabApp.extension_manager=readonly",
        "--LabApp.custom_css=True",
        f"--ServerApp.tornado_settings=static_custom_path={SETTINGS / 'custom'}",
        "--ServerApp.answer_yes=True",  # one Ctrl-C is enough
        "--ServerApp.log_level=ERROR",  # prints the address, which is critical to it, and errors
        "--LabApp.log_level=ERROR",
        *root,
        *extra,
    ]  # fmt: skip


def environment(outer: Mapping[str, str], home: Path, data: Path | None) -> dict[str, str]:
    """The process environment for JupyterLab and all kernels below it.

    `home` becomes HPML_HOME and `data`, if given, HPML_DATA. The course's settings take precedence
    over the person's own, and so does its kernel: this environment's Python, with `%%answer` and
    `check` loaded, so that after a restart they can name the cell to run again.
    """

    def before(name: str) -> str:
        return os.pathsep.join([str(SETTINGS), *filter(None, [outer.get(name)])])

    return {
        **outer,
        "HPML_HOME": str(home),
        STANDING: "1",
        **({"HPML_DATA": str(data)} if data else {}),
        "JUPYTER_CONFIG_PATH": before("JUPYTER_CONFIG_PATH"),
        "JUPYTER_PATH": before("JUPYTER_PATH"),
        "JUPYTER_PREFER_ENV_PATH": "1",
    }
