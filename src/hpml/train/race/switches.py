"""What can be turned: each improvement of the day, one by one."""

import dataclasses
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from hpml.errors import UserError
from hpml.train.config import LOADERS, MEMORY_FORMATS

PRECISIONS = ("fp32", "bf16")
CHOICES = {"loader": LOADERS, "layout": MEMORY_FORMATS, "precision": PRECISIONS}
LEAST = {"threads": 1, "ranks": 1, "bucket_mib": 0, "batch": 1, "lr": 0, "epochs": 1}
MOST = {"threads": 1024, "ranks": 1024, "bucket_mib": 1e6, "batch": 10**6, "lr": 1e6, "epochs": 999}


@dataclass(frozen=True)
class Switches:
    """The settings of a try; those that stand here are "all off".

    `batch` is the images of a step on all ranks together, and `lr` its highest learning rate: more
    ranks change the time of a step, and nothing that is learned. `bucket_mib` 0 sends each gradient
    alone. Raises UserError for a value that cannot be.
    """

    loader: str = "images"
    layout: str = "contiguous"
    precision: str = "fp32"
    threads: int = 1  # of each rank
    ranks: int = 1
    bucket_mib: float = 0.0
    batch: int = 256
    lr: float = 0.1
    epochs: int = 8
    compile: bool = False

    def __post_init__(self) -> None:
        for name, choices in CHOICES.items():
            if getattr(self, name) not in choices:
                wanted = ", ".join(choices)
                raise UserError(f"--{name} is {getattr(self, name)!r}, expected one of {wanted}")
        for name, least in LEAST.items():
            value, option = getattr(self, name), option_of(name)
            if not (math.isfinite(value) and least <= value):
                raise UserError(f"{option} is {value}, expected at least {least}")
            if value > MOST[name]:
                raise UserError(f"{option} is {value}, expected at most {MOST[name]:g}")
        if self.batch % self.ranks:
            raise UserError(
                f"--batch is {self.batch}, which {self.ranks} ranks cannot share evenly: "
                f"give a multiple of {self.ranks}"
            )

    def training(self) -> list[str]:
        """The options of the training script, those of one rank."""
        options = [
            *("--loader", self.loader, "--memory-format", self.layout),
            *("--precision", self.precision, "--threads", str(self.threads)),
            *("--batch-size", str(self.batch // self.ranks)),
            *("--lr", str(self.lr), "--lr-rule", "none", "--epochs", str(self.epochs)),
        ]
        if self.ranks > 1:  # one rank sends nothing
            options += ["--backend", "ddp", "--bucket-mib", str(self.bucket_mib)]
        return options + ["--compile"] * self.compile


def option_of(name: str) -> str:
    """The option of a switch, by its field's name."""
    return "--" + name.replace("_", "-")


def turned(these: Switches, those: Switches) -> dict[str, Any]:
    """The fields of `these` that differ from `those`, with their values."""
    return {
        field.name: getattr(these, field.name)
        for field in dataclasses.fields(Switches)
        if getattr(these, field.name) != getattr(those, field.name)
    }


def in_words(changes: Mapping[str, Any]) -> str:
    """Changed switches for people: "ranks 2, batch 512"; of a flag its name."""
    words = []
    for name, value in changes.items():
        name = name.replace("_mib", "").replace("_", " ")
        if isinstance(value, bool):
            words.append(name if value else f"no {name}")
        elif name == "bucket":
            words.append(f"bucket {value:g} MiB")
        else:
            words.append(f"{name} {value:g}" if isinstance(value, float) else f"{name} {value}")
    return ", ".join(words)
