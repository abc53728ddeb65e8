"""The sizes of a scaling study: kept as files, which of them fit, which are predicted, a table."""

import csv
import dataclasses
import json
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from hpml.errors import UserError
from hpml.files import atomic
from hpml.predict.collectives import Cost
from hpml.predict.model_layers import Layer, Model
from hpml.predict.scaling import Level, Network, Training
from hpml.predict.scaling_fit import Fitted, Interval, Point, fit

COLUMNS = (
    "nodes",
    "ranks",
    "batch",  # images on each rank
    "images_per_s",  # of all ranks
    "seconds",  # of a step, median
    "least_seconds",
    "most_seconds",
    "compute_seconds",  # of a step that sends nothing, median
    "use",  # fitted, predicted, or alone: one rank says nothing of the network
    "predicted_images_per_s",
    "predicted_low",
    "predicted_high",
)
CLOSE = 0.2  # relative: a measurement and what was predicted, on a machine that others use too


@dataclass(frozen=True)
class Size:
    """What one job of a study measured.

    `alone` is the seconds of a step that sends nothing, `seconds` those of the steps that do, both
    on the slowest rank. `within` and `across` are α and β of messages in a node and between nodes,
    None where there were none. `waited`: computing was played by waiting.
    """

    ranks: int
    per_node: int
    batch: int
    alone: float
    seconds: tuple[float, ...]
    within: tuple[float, float] | None
    across: tuple[float, float] | None
    bucket_bytes: float
    layers: tuple[Layer, ...]
    waited: bool = False

    @property
    def nodes(self) -> int:
        return self.ranks // self.per_node

    @property
    def images_per_s(self) -> float:
        """Of all ranks together, by the median step."""
        return self.ranks * self.batch / statistics.median(self.seconds)

    @property
    def point(self) -> Point:
        return Point(self.ranks, self.images_per_s)

    @property
    def kept(self) -> float:
        """Images/s over those of the same ranks when they send nothing."""
        return self.alone / statistics.median(self.seconds)


def write(folder: Path, size: Size) -> None:
    """As RANKS.json in the folder of the study."""
    folder.mkdir(parents=True, exist_ok=True)
    text = json.dumps(dataclasses.asdict(size), indent=1)
    atomic.write_text(folder / f"{size.ranks}.json", text + "\n")


def read_all(folder: Path) -> list[Size]:
    """All sizes in a folder, the smallest first.

    Raises UserError where they are not of one study: another network, another batch, or nodes that
    have other numbers of ranks.
    """
    sizes = sorted((_read(path) for path in folder.glob("*.json")), key=lambda size: size.ranks)
    several = [size for size in sizes if size.nodes > 1]
    for name in ("batch", "layers", "bucket_bytes", "waited", "per_node"):
        alike = several if name == "per_node" else sizes  # a node may have had fewer, alone
        if len({getattr(size, name) for size in alike}) > 1:
            raise UserError(
                f"{folder}: its sizes differ in {name}: give each study a folder of its own"
            )
    return sizes


def split(sizes: Sequence[Size]) -> tuple[list[Size], list[Size]]:
    """The sizes that are fitted, and those that are predicted: one rule, the smallest fit.

    Sizes of several ranks until there are two, and one of them uses the network between nodes. The
    largest is never fitted, unless it is the only one. (`hpml.predict.published_scaling.split` has
    the same rule.)
    """
    many = [size for size in sizes if size.ranks > 1]
    across = [size for size in many if size.nodes > 1]
    last = max((size.ranks for size in many[1:2] + across[:1]), default=0)
    fitted = [size for size in many if size.ranks <= last]
    if len(many) == len(fitted) > 1:
        fitted.pop()
    fitted = fitted or many[:1]
    return fitted, [size for size in many if size not in fitted]


def fitted_and_unseen(sizes: Sequence[Size]) -> tuple[Fitted | None, list[Size]]:
    """The predictor with its constants fitted, and the sizes that it has to predict.

    One rank alone is the smallest size's step that sends nothing. α and β are the least
    of those that the fitted sizes measured.
    None as long as no size has two ranks: nothing is known of the network yet.
    """
    fitted, unseen = split(sizes)
    if not fitted:
        return None, []
    first = sizes[0]
    within = _quickest([size.within for size in fitted if size.within])
    between = _quickest([size.across for size in fitted if size.across])
    levels = []
    if within:
        inside = next(size.per_node for size in fitted if size.within)
        levels.append(Level(inside if between else None, within))
    if between:
        levels.append(Level(None, between))
    training = Training(
        Model("network", first.layers),
        images_per_s=first.batch / first.alone,
        batch=first.batch,
        network=Network(tuple(levels)),
        bucket_bytes=first.bucket_bytes,
    )
    return fit(training, [size.point for size in fitted]), unseen


def write_table(
    path: Path, sizes: Sequence[Size], fitted: Fitted | None, unseen: Sequence[Size]
) -> None:
    """A row for each size; `./hpml predict --fit` reads it."""
    with path.open("w", newline="") as file:
        table = csv.writer(file)
        table.writerow(COLUMNS)
        for size in sizes:
            use = "predicted" if size in unseen else "fitted" if size.ranks > 1 else "alone"
            row = [size.nodes, size.ranks, size.batch, f"{size.images_per_s:.1f}"]
            least, most = min(size.seconds), max(size.seconds)
            middle = statistics.median(size.seconds)
            row += [f"{seconds:.4e}" for seconds in (middle, least, most, size.alone)]
            row.append(use)
            if fitted is None:
                row += ["", "", ""]
            else:
                one, interval = fitted.predict(size.ranks), fitted.interval(size.ranks)
                row += [f"{x:.1f}" for x in (one.images_per_s, interval.low, interval.high)]
            table.writerow(row)


def line(size: Size) -> str:
    """What was measured, for the log of the job."""
    what = " (waiting in place of computing)" if size.waited else ""
    return (
        f"{size.ranks} rank{'s' * (size.ranks > 1)} on {size.nodes} node{'s' * (size.nodes > 1)}: "
        f"{size.images_per_s:.0f} images/s, {size.kept:.0%} of what they do without sending{what}"
    )


def conclusion(sizes: Sequence[Size], fitted: Fitted | None, unseen: Sequence[Size]) -> list[str]:
    """Lines for the log: what was predicted of this study, and what is of a larger one."""
    if fitted is None:
        return ["one rank sends nothing: what more ranks do is predicted from the next size on"]
    lines = []
    for size in unseen:
        one, interval = fitted.predict(size.ranks), fitted.interval(size.ranks)
        lines.append(
            f"{size.ranks} ranks were predicted: {one.images_per_s:.0f} images/s "
            f"({interval.low:.0f} to {interval.high:.0f}); measured: {size.images_per_s:.0f}, "
            f"{size.images_per_s / one.images_per_s - 1:+.0%}"
        )
    if all(size.across is None for size in sizes):
        return [*lines, "nothing is known of the network between nodes before two of them"]
    for ranks in (2 * sizes[-1].ranks, 8 * sizes[-1].ranks):
        one, interval = fitted.predict(ranks), fitted.interval(ranks)
        lines.append(
            f"{ranks} ranks are predicted: {one.images_per_s:.0f} images/s "
            f"({interval.low:.0f} to {interval.high:.0f}), {one.efficiency:.0%} efficient"
        )
    return lines


class Largest(NamedTuple):
    """The largest size, predicted and then measured: held to CLOSE or its interval."""

    held: bool
    size: Size
    predicted: float  # images/s
    interval: Interval
    off: float  # measured over predicted, less 1
    kept: float  # of a rank's images/s alone


def largest(fitted: Fitted, unseen: Sequence[Size]) -> Largest:
    """For the lecture: what was predicted from small ones of the largest size."""
    last = max(unseen, key=lambda size: size.ranks)
    predicted, interval = fitted.predict(last.ranks).images_per_s, fitted.interval(last.ranks)
    off = last.images_per_s / predicted - 1
    kept = last.images_per_s / last.ranks / fitted.training.images_per_s
    held = abs(off) < CLOSE or last.images_per_s in interval
    return Largest(held, last, predicted, interval, off, kept)


def lead(fitted: Fitted, unseen: Sequence[Size]) -> str:
    """For the report's front page: which sizes were fitted, and by how much the largest one that
    was predicted came out otherwise, whatever it was.
    """
    last = max(unseen, key=lambda size: size.ranks)
    points = " and ".join(str(point.ranks) for point in fitted.points)
    predicted = fitted.predict(last.ranks).images_per_s
    off = predicted / last.images_per_s - 1
    error = (
        "right to 0.1 %"
        if abs(off) < 5e-4
        else f"{abs(off):.1%} too {'high' if off > 0 else 'low'}"
    )
    return (
        f"Fitted on {points} ranks of this machine, the model predicted {predicted:,.0f} images/s "
        f"for {last.ranks} ranks; {last.images_per_s:,.0f} were measured, so it was {error}."
    )


def _quickest(measured: Sequence[tuple[float, float]]) -> Cost | None:
    """The least α and the least β of several measurements: other work only adds to them."""
    return Cost(*map(min, zip(*measured, strict=True))) if measured else None


def _read(path: Path) -> Size:
    try:
        fields = json.loads(path.read_text())
        fields["layers"] = tuple(Layer(**layer) for layer in fields["layers"])
        for name in ("seconds", "within", "across"):
            fields[name] = fields[name] and tuple(fields[name])
        return Size(**fields)
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise UserError(f"{path}: not a size of a scaling study ({error}): delete it") from None
