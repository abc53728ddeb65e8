"""All options of a training run: one dataclass, and its command line."""

import argparse
import dataclasses
import typing
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

from hpml.errors import UserError
from hpml.train.learning_rate import RULES

DEVICES = ("auto", "cpu", "cuda")
PRECISIONS = ("auto", "bf16", "fp32")
BACKENDS = ("auto", "ddp", "horovod")


def _option(default: Any, help: str, **limits: Any) -> Any:
    return dataclasses.field(default=default, metadata={"help": help, **limits})


@dataclass(frozen=True)
class TrainConfig:
    """What to train on, how long, how fast. Raises UserError for an invalid value."""

    data: str | None = _option(None, "folder with CIFAR-10; default: HPML_DATA, else ./hpml data's")
    samples: int | None = _option(None, "train on the first N images only", least=1)
    test_samples: int | None = _option(None, "test on the first N images only", least=1)
    epochs: int = _option(13, "passes over the training images", least=1)
    early_size: int = _option(24, "side of the images early in the training", least=16, most=32)
    early_share: float = _option(0.7, "share of the training that is early", least=0, most=1)
    batch_size: int = _option(250, "images per step on each rank", least=1)
    lr: float = _option(0.36, "learning rate of one rank, at its highest", least=0)
    lr_rule: str = _option("linear", "how it grows with the number of ranks", choices=tuple(RULES))
    warmup: float = _option(0.23, "share of the training in which it rises", least=0, most=1)
    momentum: float = _option(0.85, "Nesterov momentum", least=0, most=1)
    weight_decay: float = _option(1.5e-3, "of convolutions and linear layers", least=0)
    label_smoothing: float = _option(
        0.2, "share of the target given to all classes", least=0, most=1
    )
    lookahead: bool = _option(True, "pull the weights back to their average on the way")
    widths: tuple[int, ...] = _option((64, 256, 256), "channels of the network's stages", least=1)
    seed: int = _option(0, "of weights, order and augmentation", least=0)
    threads: int | None = _option(None, "threads of each rank; default: PyTorch's", least=1)
    device: str = _option("auto", "auto takes the GPU where there is one", choices=DEVICES)
    backend: str = _option(
        "auto", "auto is horovod under horovodrun and mpirun, else ddp", choices=BACKENDS
    )
    precision: str = _option("auto", "auto is bf16 where the processor has it", choices=PRECISIONS)
    checkpoint: str | None = _option(None, "folder to keep checkpoint.pt in")
    resume: bool = _option(False, "carry on from the checkpoint, if there is one yet")
    out: str | None = _option(None, "file to write the history to, as JSON")
    tensorboard: str | None = _option(None, "folder for TensorBoard's scalars")
    progress: bool = _option(True, "progress bar on rank 0")

    def __post_init__(self) -> None:
        for field in dataclasses.fields(self):
            value, limits = getattr(self, field.name), field.metadata
            option = "--" + field.name.replace("_", "-")
            if "choices" in limits and value not in limits["choices"]:
                choices = ", ".join(limits["choices"])
                raise UserError(f"{option} is {value!r}, expected one of {choices}")
            for number in value if isinstance(value, tuple) else [value]:
                if number is not None and not limits.get("least", number) <= number:
                    raise UserError(f"{option} is {number}, expected at least {limits['least']}")
                if number is not None and not number <= limits.get("most", number):
                    raise UserError(f"{option} is {number}, expected at most {limits['most']}")
        if not self.widths:
            raise UserError("--widths is empty, expected a form like 48,128,256")
        if self.resume and not self.checkpoint:
            raise UserError("--resume needs --checkpoint DIR: where is there something to resume?")


def parse(arguments: Sequence[str] | None = None, program: str = "hpml train") -> TrainConfig:
    """The configuration that a command line asks for; UserError where it cannot be read."""
    parser = _Parser(
        prog=program,
        description="Train a small residual network on CIFAR-10, on one process or many. "
        "Runs the same as plain python, under torchrun, srun, horovodrun and mpirun.",
        allow_abbrev=False,
    )
    for field in dataclasses.fields(TrainConfig):
        option = "--" + field.name.replace("_", "-")
        explain = field.metadata["help"].replace("%", "%%")
        if field.type is bool:
            parser.add_argument(
                option, action=argparse.BooleanOptionalAction, default=field.default, help=explain
            )
        else:
            default = field.default
            shown = ",".join(map(str, default)) if isinstance(default, tuple) else default
            choices = field.metadata.get("choices")
            metavar = "|".join(choices) if choices else field.name.upper()
            parser.add_argument(
                option,
                type=_reader(field.type),
                default=default,
                metavar=metavar,
                help=explain if default is None else f"{explain} (default: {shown})",
            )
    return TrainConfig(**vars(parser.parse_args(arguments)))


def _reader(annotation: Any) -> Any:
    if typing.get_origin(annotation) is tuple:
        return _whole_numbers
    kinds = [kind for kind in typing.get_args(annotation) if kind is not type(None)]
    return kinds[0] if kinds else annotation


def _whole_numbers(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in text.split(","))


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise UserError(f"{self.prog}: {message}; see {self.prog} --help")
