"""A run that somebody asks for by names: its training, its constants, and where each is from."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from hpml.errors import UserError
from hpml.predict.interconnects import cost_of, inside_of, nodes
from hpml.predict.model_layers import model
from hpml.predict.own_measurements import Own, read
from hpml.predict.published_foretold import commonly, images_per_s, one_rank
from hpml.predict.published_scaling import tables
from hpml.predict.scaling import MIB, Input, Training
from hpml.predict.scaling_fit import Fitted, fit

MOST = 100_000  # ranks


@dataclass(frozen=True)
class Asked:
    """What `./hpml predict` is given: see its options."""

    model: str
    gpu: str
    per_node: int
    network: str
    within: str | None = None
    images_per_s: float | None = None
    batch: int | None = None
    algorithm: str = "ring"
    bucket_mib: float = 25.0
    overlap: bool = True
    fp16: bool = False
    loader: float = float("inf")
    storage: float = float("inf")


@dataclass(frozen=True)
class Run:
    """The predictor for what was asked, and in words what it rests on."""

    fitted: Fitted
    notes: tuple[str, ...]


def foretell_run(asked: Asked, measurements: Sequence[Path] = ()) -> Run:
    """Put together what was asked; the constants are fitted on the files of `measurements`.

    Raises UserError for names and values that there is nothing for, and for files that cannot be
    read.
    """
    layers = model(asked.model)
    own = read(measurements)
    speed, batch, source = _one_rank(asked, own)
    inside, between = cost_of(asked.within or inside_of(asked.gpu)), cost_of(asked.network)
    if own.between is not None:
        between = own.between
    try:
        training = Training(
            layers,
            images_per_s=speed,
            batch=batch,
            network=nodes(asked.per_node, inside, between),
            algorithm=asked.algorithm,
            bucket_bytes=asked.bucket_mib * MIB,
            overlap=asked.overlap,
            gradient_share=0.5 if asked.fp16 else 1.0,
            input=Input(asked.loader, asked.storage),
        )
    except ValueError as error:
        raise UserError(f"predict: {error}") from None
    several = [point for point in own.points if point.ranks > 1]
    fitted = fit(training, own.points) if several else commonly(training)
    constants = fitted.constants
    notes = [source]
    if own.between is not None:
        notes.append(
            f"Between nodes, as measured: α {own.between.alpha * 1e6:.0f} µs, "
            f"β {8e-9 / own.between.beta:.3g} Gbit/s."
        )
    sizes_of = ", ".join(str(point.ranks) for point in several)
    notes.append(
        f"Two constants fitted on {sizes_of} ranks of yours"
        if several
        else "Two constants as the published tables leave them: measure a few ranks, and --fit them"
    )
    notes[-1] += (
        f": {constants.rate:.0%} of the network's rate, ranks that differ by "
        f"{constants.straggling:.1%} of a step (medians)."
    )
    if several and 1 < max(point.ranks for point in several) <= asked.per_node:
        notes.append("None of them used the network between nodes: its share is open.")
    return Run(fitted, tuple(notes))


def sizes(text: str) -> list[int]:
    """Ranks from "8-512": doubled from the first, and the last. Also one number.

    Raises UserError for anything else.
    """
    match = re.fullmatch(r"(\d+)(?:-(\d+))?", text.strip())
    first, last = (int(match[1]), int(match[2] or match[1])) if match else (0, 0)
    if not 1 <= first <= last <= MOST:
        raise UserError(f"--ranks {text!r}: give a form like 8-512, from 1 to {MOST}")
    found = []
    while first < last:
        found.append(first)
        first *= 2
    return [*found, last]


def _one_rank(asked: Asked, own: Own) -> tuple[float, int, str]:
    """Images/s of one rank, its batch, and a sentence of where they are from."""
    alone = next((point for point in own.points if point.ranks == 1), None)
    published = one_rank(asked.model, asked.gpu)
    batch = asked.batch or own.batch or (published.batch if published else None)
    speed = asked.images_per_s or (alone.images_per_s if alone else None)
    if speed is None and published is not None:
        speed = images_per_s(published)
        source = f"One rank: {speed:g} images/s with {published.batch} a step, {published.source}."
        assert batch is not None  # what was published has one
        return speed, batch, source
    if speed is None:
        names = sorted({row.processor for rows in tables().values() for row in rows})
        raise UserError(
            f"nobody published one {asked.gpu} with {asked.model} here: give --images-per-s and "
            f"--batch, or one of the processors {', '.join(names)}"
        )
    if batch is None:
        raise UserError("the batch of one rank is not known: give --batch")
    return speed, batch, f"One rank: {speed:g} images/s with {batch} a step, as given."
