"""A run that somebody asks for by names: its training, its constants, and where each is from."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from hpml.errors import UserError
from hpml.predict.interconnects import cost_of, inside_of, nodes
from hpml.predict.model_layers import model
from hpml.predict.own_measurements import Own, read
from hpml.predict.published_predicted import commonly, images_per_s, inside_a_node, one_rank
from hpml.predict.published_scaling import tables
from hpml.predict.scaling import MIB, Input, Training
from hpml.predict.scaling_fit import Fitted, fit

MOST = 100_000  # ranks
FAR = 4  # times the largest size measured: published tables are predicted well up to there


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


def predict_run(asked: Asked, measurements: Sequence[Path] = ()) -> Run:
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
    near = bool(several) and several[-1].ranks <= asked.per_node
    if not several:
        fitted = commonly(training)
    else:
        fitted = inside_a_node(training, own.points) if near else fit(training, own.points)
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
    if near:
        notes.append(
            "None of them used the network between nodes: of its share only the published tables "
            "say something, so the interval is wide."
        )
    return Run(fitted, (*notes, *_misfits(fitted)))


def beyond(fitted: Fitted, ranks: int) -> str:
    """A sentence where so many ranks are far more than were measured; else empty."""
    largest = max((point.ranks for point in fitted.points), default=1)
    if largest == 1 or ranks <= FAR * largest:
        return ""
    return (
        f"{ranks} ranks are {ranks / largest:.0f} times your largest run: what fills up on the way "
        "(a shared switch, parameter servers, storage) is in no term of this model."
    )


def _misfits(fitted: Fitted) -> list[str]:
    """A sentence for each measurement that looks wrong, or that the fitted model does not meet."""
    notes, missed = [], fitted.missed()
    alone = fitted.training.images_per_s
    for point in fitted.points:
        measured = f"{point.ranks} ranks {point.images_per_s:,.0f} images/s"
        if point.ranks >= 4 and point.images_per_s < 1.5 * alone:
            notes.append(
                f"On {measured}, where one has {alone:,.0f}: is that per GPU? Give those of all "
                "ranks together."
            )
        elif point in missed:
            model = fitted.predict(point.ranks).images_per_s
            notes.append(
                f"Does not fit: on {measured} were measured, and the fitted model has {model:,.0f}."
            )
    return notes


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
    batch = asked.batch if asked.batch is not None else own.batch
    speed, whose = asked.images_per_s, "as given"
    if speed is None and alone is not None:
        speed, whose = alone.images_per_s, "as you measured"
    if speed is None and published is not None:
        speed = images_per_s(published)
        assert published.batch is not None  # of those that are looked for
        if batch not in (None, published.batch):
            raise UserError(
                f"one {asked.gpu} with {asked.model} is published with {published.batch} images a "
                f"step: give --images-per-s for {batch} too"
            )
        source = f"One rank: {speed:g} images/s with {published.batch} a step, {published.source}."
        return speed, published.batch, source
    if speed is None:
        raise UserError(_nobody(asked))
    if batch is None and published is not None:
        batch = published.batch
        assert batch is not None
        more = ", as was published: give --batch if yours is another"
        return speed, batch, f"One rank: {speed:g} images/s, {whose}, with {batch} a step{more}."
    if batch is None:
        raise UserError("the batch of one rank is not known: give --batch")
    return speed, batch, f"One rank: {speed:g} images/s with {batch} a step, {whose}."


def _nobody(asked: Asked) -> str:
    """That nobody published what was asked for, and what there is instead."""
    names = sorted(
        {
            one.processor
            for rows in tables().values()
            for row in rows
            if (one := one_rank(asked.model, row.processor))
        }
    )
    others = f", or one of the processors {', '.join(names)}" if names else ""
    return (
        f"nobody published one {asked.gpu} with {asked.model} here: give --images-per-s and "
        f"--batch{others}"
    )
