"""The options of an srun within a job that has whole nodes: which CPUs each rank is bound to.

As srun(1) of SLURM 22.05 describes them under --cpu-bind, --cpus-per-task and --exact, and as its
task/affinity plugin was seen to bind: tests/cluster/test_binding.py holds this against a SLURM.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass

SHORT = {"-n": "ntasks", "-N": "nodes", "-c": "cpus-per-task", "-l": "label", "-m": "distribution"}
FLAGS = ("exclusive", "exact", "label", "unbuffered", "verbose")
VALUES = (
    *("ntasks", "nodes", "ntasks-per-node", "cpus-per-task", "cpu-bind", "export", "hint"),
    *("mpi", "kill-on-bad-exit", "distribution"),
)


@dataclass(frozen=True)
class Step:
    """What srun's options say: by the option's long name, "" for one without a value."""

    options: dict[str, str]

    @property
    def kind(self) -> str:
        """How ranks are bound: mask_cpu, cores, none, ...; "" without --cpu-bind."""
        return self._bound[0]

    @property
    def masks(self) -> list[str]:
        """The texts of the masks, or of whatever list the kind of binding has."""
        return self._bound[1].split(",") if self._bound[1] else []

    @property
    def _bound(self) -> tuple[str, str]:
        text = re.sub(r"^(q|quiet|v|verbose)(,|$)", "", self.options.get("cpu-bind", ""))
        kind, _, rest = text.partition(":")
        return kind, rest

    @property
    def environment(self) -> dict[str, str]:
        """The variables that --export sets."""
        items = self.options.get("export", "").split(",")
        return dict(item.split("=", 1) for item in items if "=" in item)

    @property
    def keeps_environment(self) -> bool:
        """Whether ranks have the job's other variables too: without --export, or with its ALL."""
        return "ALL" in self.options.get("export", "ALL").split(",")

    def has_whole_node(self, ranks: int, cpus: int) -> bool:
        """Whether all `cpus` of a node are the step's: else SLURM declines masks for the others.

        A step has what its job has, unless it asks for CPUs itself.
        """
        if "exclusive" in self.options or "exact" in self.options:
            return False
        per_task = self.options.get("cpus-per-task")
        return per_task is None or (per_task == str(cpus // ranks) and cpus % ranks == 0)


def read(words: Sequence[str]) -> Step:
    """The options, in any of the ways in which srun takes them.

    Raises ValueError, with a sentence, for one that is not an option, or not among those read here.
    """
    options: dict[str, str] = {}
    rest = list(words)
    while rest:
        word = rest.pop(0)
        name, given, value = word.removeprefix("--").partition("=")
        if not word.startswith("--"):
            name, value = SHORT.get(word[:2], ""), word[2:]
            given = value
        name = name.replace("cpu_bind", "cpu-bind")
        if name in FLAGS and not given:
            options[name] = ""
        elif name in VALUES:
            if not given and not rest:
                raise ValueError(f"{word[:60]} has no value")
            options[name] = value if given else rest.pop(0)
        else:
            raise ValueError(f"{word[:60]!r} is not an option of srun's that belongs here")
    return Step(options)
