"""All options of a training run: one dataclass, and its command line."""

import argparse
import dataclasses
import typing
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

from hpml.errors import UserError
from hpml.train.learning_rate import RULES

MODELS = ("residual", "vit")
SIZES = ("tiny", "small")
SHARDS = ("none", "zero1", "fsdp")
DEVICES = ("auto", "cpu", "cuda")
PRECISIONS = ("auto", "bf16", "fp32")
BACKENDS = ("auto", "ddp", "horovod")
LOADERS = ("images", "batch", "ahead")
MEMORY_FORMATS = ("contiguous", "channels_last")


def _option(default: Any, help: str, **limits: Any) -> Any:
    return dataclasses.field(default=default, metadata={"help": help, **limits})


def _by_model(help: str, *, residual: Any = None, vit: Any = None, **limits: Any) -> Any:
    """An option whose default is the model's; one that has none for a model is refused there."""
    return _option(None, help, by_model={"residual": residual, "vit": vit}, **limits)


@dataclass(frozen=True)
class TrainConfig:
    """What to train on, how long, how fast. Raises UserError for an invalid value."""

    data: str | None = _option(None, "folder with CIFAR-10; default: HPML_DATA, else ./hpml data's")
    samples: int | None = _option(None, "train on the first N images only", least=1)
    test_samples: int | None = _option(None, "test on the first N images only", least=1)
    epochs: int = _option(13, "passes over the training images", least=1)
    model: str = _option("residual", "network to train", choices=MODELS)
    size: str = _by_model("of the vision transformer", vit="tiny", choices=SIZES)
    early_size: int = _by_model(
        "side of the images early in the training", residual=24, least=16, most=32
    )
    early_share: float = _by_model(
        "share of the training that is early", residual=0.5, least=0, most=1
    )
    batch_size: int = _option(250, "images per step on each rank", least=1)
    lr: float = _by_model(
        "learning rate of one rank, at its highest", residual=0.36, vit=1.5e-3, least=0
    )
    # Adam's steps do not grow with the gradient: Malladi et al. 2022, arXiv:2205.10287, section 5.
    lr_rule: str = _by_model(
        "how it grows with the number of ranks",
        residual="linear",
        vit="sqrt",
        choices=tuple(RULES),
    )
    warmup: float = _option(0.23, "share of the training in which it rises", least=0, most=1)
    momentum: float = _by_model("Nesterov momentum", residual=0.85, least=0, most=1)
    weight_decay: float = _by_model(
        "of convolutions and linear layers", residual=1.5e-3, vit=0.05, least=0
    )
    label_smoothing: float = _by_model(
        "share of the target given to all classes", residual=0.1, vit=0.1, least=0, most=1
    )
    lookahead: bool = _by_model(
        "pull the weights back to their average on the way", residual=True, vit=False
    )
    widths: tuple[int, ...] = _by_model(
        "channels of the network's stages", residual=(64, 256, 256), least=1
    )
    seed: int = _option(0, "of weights, order and augmentation", least=0)
    threads: int | None = _option(None, "threads of each rank; default: PyTorch's", least=1)
    device: str = _option("auto", "auto takes the GPU where there is one", choices=DEVICES)
    backend: str = _option(
        "auto", "auto is horovod under horovodrun and mpirun, else ddp", choices=BACKENDS
    )
    shard: str = _option(
        "none",
        "what ranks with the same weights have one of among them: zero1 the optimizer's states, "
        "fsdp parameters and gradients too; zero1 is not for --tensor",
        choices=SHARDS,
    )
    tensor: int = _option(1, "ranks that share each matrix; for --model vit alone", least=1)
    pipeline: int = _option(
        1, "stages of layers, a rank or more each; for --model vit alone", least=1
    )
    micro_batches: int = _option(8, "parts of a batch in a pipeline", least=1)
    precision: str = _option("auto", "auto is bf16 where the processor has it", choices=PRECISIONS)
    loader: str = _option(
        "batch",
        "what is read and transformed at once: one of the images, a whole batch, or a batch in a "
        "thread, ahead of the step",
        choices=LOADERS,
    )
    memory_format: str = _option(
        "channels_last", "of images and filters, as torch names it", choices=MEMORY_FORMATS
    )
    bucket_mib: float | None = _option(
        None, "MiB of gradients in a message; 0: each alone; default: DDP's own buckets", least=0
    )
    compile: bool = _option(False, "compile the network; needs a C++ compiler")
    checkpoint: str | None = _option(None, "folder to keep checkpoint.pt in")
    resume: bool = _option(False, "carry on from the checkpoint, if there is one yet")
    out: str | None = _option(None, "file to write the history to, as JSON")
    tensorboard: str | None = _option(
        None, "folder for TensorBoard: scalars, images, histograms, hyperparameters, profiles"
    )
    profile: tuple[int, ...] = _option(
        None,
        "ranks, as 0,3, of which a few steps are profiled into --tensorboard's folder",
        least=0,
    )
    progress: bool = _option(True, "progress bar on rank 0")

    def __post_init__(self) -> None:
        for field in dataclasses.fields(self):
            value, limits = getattr(self, field.name), field.metadata
            option = "--" + field.name.replace("_", "-")
            if "by_model" in limits:
                own = limits["by_model"][self.model]
                if own is None and value is not None:
                    raise UserError(f"{option} is not for --model {self.model}: leave it out")
                if value is None:
                    value = own
                    object.__setattr__(self, field.name, own)
            if value is not None and "choices" in limits and value not in limits["choices"]:
                choices = ", ".join(limits["choices"])
                raise UserError(f"{option} is {value!r}, expected one of {choices}")
            for number in value if isinstance(value, tuple) else [value]:
                if number is not None and not limits.get("least", number) <= number:
                    raise UserError(f"{option} is {number}, expected at least {limits['least']}")
                if number is not None and not number <= limits.get("most", number):
                    raise UserError(f"{option} is {number}, expected at most {limits['most']}")
        if self.profile and not self.tensorboard:
            raise UserError("--profile needs --tensorboard DIR: where do the traces go?")
        if self.widths == ():
            raise UserError("--widths is empty, expected a form like 48,128,256")
        for option, number in (("--tensor", self.tensor), ("--pipeline", self.pipeline)):
            if number > 1 and self.model != "vit":
                raise UserError(
                    f"{option} is {number}, and the residual network is not split: add --model vit"
                )
        if self.splits and self.backend == "horovod":
            raise UserError(
                "--backend is horovod, which only averages gradients: "
                f"leave it out, or {self.splits}"
            )
        if self.shard == "zero1" and self.tensor > 1:
            raise UserError(
                f"--shard is zero1, and --tensor is {self.tensor}: torch's ZeroRedundancyOptimizer "
                "does not take split matrices: give --shard fsdp or none"
            )
        if self.bucket_mib is not None and self.backend == "horovod":
            raise UserError(
                "--bucket-mib is for ddp, and --backend is horovod: set HOROVOD_FUSION_THRESHOLD, "
                "in bytes"
            )
        if self.splits and (self.compile or self.bucket_mib is not None):
            given = "--compile" if self.compile else "--bucket-mib"
            raise UserError(
                f"{given} is for ranks that each have the whole network: leave it out, "
                f"or {self.splits}"
            )
        if self.resume and not self.checkpoint:
            raise UserError("--resume needs --checkpoint DIR: where is there something to resume?")

    @property
    def splits(self) -> str:
        """The options given by which ranks do not all have everything, "" where they do."""
        given = [] if self.shard == "none" else [f"--shard {self.shard}"]
        given += [f"--tensor {self.tensor}"] * (self.tensor > 1)
        return " ".join(given + [f"--pipeline {self.pipeline}"] * (self.pipeline > 1))


def parse(arguments: Sequence[str] | None = None, program: str = "hpml train") -> TrainConfig:
    """The configuration that a command line asks for; UserError where it cannot be read."""
    parser = _Parser(
        prog=program,
        description="Train a small network on CIFAR-10, on one process or many. "
        "Runs the same as plain python, under torchrun, srun, horovodrun and mpirun.",
        allow_abbrev=False,
    )
    for field in dataclasses.fields(TrainConfig):
        option = "--" + field.name.replace("_", "-")
        explain = field.metadata["help"].replace("%", "%%")
        shown = _shown(field)
        if shown is not None:
            explain += f" (default: {shown})"
        if field.type is bool:
            parser.add_argument(
                option, action=argparse.BooleanOptionalAction, default=field.default, help=explain
            )
        else:
            choices = field.metadata.get("choices")
            metavar = "|".join(choices) if choices else field.name.upper()
            parser.add_argument(
                option,
                type=_reader(field.type),
                default=field.default,
                metavar=metavar,
                help=explain,
            )
    return TrainConfig(**vars(parser.parse_args(arguments)))


def _shown(field: dataclasses.Field[Any]) -> str | None:
    """The default as the help shows it: one for all models, or that of each that has one."""
    if "by_model" not in field.metadata:
        # argparse itself shows that of a flag, by its two forms.
        return None if field.default is None or field.type is bool else str(field.default)
    defaults = {
        model: ",".join(map(str, own)) if isinstance(own, tuple) else str(own)
        for model, own in field.metadata["by_model"].items()
        if own is not None
    }
    return ", ".join(f"{own} for {model}" for model, own in defaults.items())


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
