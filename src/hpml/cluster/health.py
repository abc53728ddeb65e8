"""Are the cluster's daemons alive?"""

from dataclasses import dataclass

from hpml.cluster.folder import running_folder
from hpml.cluster.process import read_pid_file
from hpml.cluster.shape import HEAD, Shape

REMEDY = "./hpml cluster down, then ./hpml cluster up"


@dataclass(frozen=True)
class Health:
    """What of the cluster runs.

    `dead` names daemons that were started and have ended; `failed` is why `up` gave up.
    """

    shape: Shape
    ready: bool
    head: bool
    dead: tuple[str, ...]
    failed: str = ""

    @property
    def problem(self) -> str:
        """What is wrong, in one line with the remedy; empty where nothing is."""
        if self.failed:
            return f"{self.failed}: ./hpml cluster up tries again"
        if not self.head:
            return f"the cluster has ended (the machine was restarted, perhaps): {REMEDY}"
        if self.dead:
            return f"{' and '.join(self.dead)} ended unexpectedly: {REMEDY}"
        if not self.ready:
            return f"the cluster is only half up (its start was interrupted, or goes on): {REMEDY}"
        return ""


def health() -> Health:
    """The state of the cluster. Raises UserError where there is none."""
    folder = running_folder()
    shape, _ = folder.plan()
    alive = {
        name: process.alive
        for name in (HEAD, "munged", "slurmctld", *_node_daemons(shape))
        if (process := read_pid_file(folder.pid_file(name))) is not None
    }
    dead = [_format_daemon(name) for name, lives in alive.items() if not lives and name != HEAD]
    failed = folder.failed.read_text().strip() if folder.failed.exists() else ""
    return Health(shape, folder.ready.exists(), alive.get(HEAD, False), tuple(dead), failed)


def _node_daemons(shape: Shape) -> list[str]:
    return [f"{name}.slurmd" for name in shape.names]


def _format_daemon(name: str) -> str:
    node, _, daemon = name.partition(".")
    return f"{daemon} of {node}" if daemon else node
