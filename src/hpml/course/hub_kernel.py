"""The course's kernel for a JupyterLab of others: JupyterHub, Open OnDemand, VS Code.

`./hpml lab` brings a kernel of its own. A hub starts its own JupyterLab, in another Python, and
offers the kernels that it finds installed: this one is a folder with a kernel.json.
"""

import json
import sys
import tempfile
from pathlib import Path

from jupyter_client.kernelspec import KernelSpecManager

from hpml.course.lab import SETTINGS, STANDING
from hpml.errors import UserError
from hpml.paths import CHECKOUT, home

NAME = "hpml"
DISPLAYED = "HPML day 2"


def install(prefix: Path | None = None) -> Path:
    """Install the kernel for this user, or for all who use what is below `prefix`; its folder.

    Of a user it is bound to this checkout or copy, and to its `HPML_HOME`. Below a prefix each user
    has `~/.hpml`. One that is there already is replaced. Raises UserError where nothing can be
    written.
    """
    variables = {
        "PYTHONPATH": str(CHECKOUT / "src"),
        "PYTHONNOUSERSITE": "1",
        "HPML_HOME": "~/.hpml" if prefix else str(home()),
        STANDING: "1",
    }
    kernel = json.loads((SETTINGS / "kernels" / "python3" / "kernel.json").read_text("utf-8"))
    kernel["argv"][0] = sys.executable
    kernel |= {"display_name": DISPLAYED, "env": variables}
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "kernel.json").write_text(json.dumps(kernel, indent=1) + "\n", "utf-8")
        try:
            where = KernelSpecManager().install_kernel_spec(
                folder, NAME, user=prefix is None, prefix=str(prefix) if prefix else None
            )
        except OSError as error:
            raise UserError(f"kernel: {error.filename}: {error.strerror}") from None
    return Path(where)
