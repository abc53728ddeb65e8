"""What an answer may import and what it may not use, as data that travels to the ranks.

`hpml.answer.enforce` holds an answer to it.
"""

import sys
from collections.abc import Iterable
from dataclasses import dataclass

# What a rank is made of: the files of this package that can be loaded in one, and all that a
# grader's sandbox shows of it. They have no expected value, and nothing that exercises ask for.
MACHINERY = ("__init__.py", "answer", "errors.py", "network", "ranks")

OPERATORS = "torch.ops."  # names of PyTorch's own operators begin so: torch.ops.aten._fused_adam_


@dataclass(frozen=True)
class ReadyMade:
    """Something ready-made that an exercise does not allow.

    `shown` names it to a person, as Markdown. `names` are the classes and functions that are
    refused, by the module that defines them: "torch.utils.data.distributed.DistributedSampler". A
    class is refused together with everything that inherits from it. Their package, torch or os, is
    one that ranks have imported. "torch.ops.aten._fused_adam_" is an operator, refused on the CPU
    by whatever name it is called. Without `names` nothing is refused while an answer runs, and a
    judge finds it in the evidence.

    `keys` are dispatch keys of PyTorch whose kernels on the CPU are left out, in all threads and
    whoever sets them up: with "Autograd" no operator is recorded, with "AutocastCPU" none is cast.
    """

    shown: str
    names: tuple[str, ...] = ()
    keys: tuple[str, ...] = ()


@dataclass(frozen=True)
class Rules:
    """What one exercise's answers are held to.

    `libraries` are the packages that may be imported besides Python's standard library; `allowed`
    ends a sentence that begins with "Allowed:".
    """

    libraries: tuple[str, ...]
    allowed: str = ""
    not_allowed: tuple[ReadyMade, ...] = ()

    @property
    def refused_modules(self) -> tuple[str, ...]:
        """The modules that define what is not allowed, but for PyTorch's own operators."""
        names = [name for ready in self.not_allowed for name in ready.names]
        found = [n.rpartition(".")[0] for n in names if not n.startswith(OPERATORS)]
        return tuple(dict.fromkeys(found))

    @property
    def refuses_programs(self) -> bool:
        """Whether an answer may start no other program."""
        return any("os.execve" in ready.names for ready in self.not_allowed)

    def may_import(self, module: str) -> bool:
        """Whether an answer may import the module of this dotted name.

        It may import itself: pickle does, to find the classes of objects.
        """
        package = module.partition(".")[0]
        return package in (*self.libraries, "answer") or package in sys.stdlib_module_names


def listed(names: Iterable[str]) -> str:
    """Names in a sentence, as Markdown: "`numpy`, `torch` and `tqdm`"."""
    *most, last = [f"`{name}`" for name in names]
    return f"{', '.join(most)} and {last}" if most else last


def importable(libraries: Iterable[str]) -> str:
    """What an answer may import with these libraries, to follow the word "import"."""
    return listed(["standard", *libraries]).replace("`standard`", "Python's standard library")
