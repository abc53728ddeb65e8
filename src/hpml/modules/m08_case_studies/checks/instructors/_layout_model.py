"""The cost model of choose_layout: bytes of a rank, seconds of a step, and usual mistakes in both.

It is that of `hpml.predict.which_split`, where the sources are; but stages come before data ranks
in the order of ranks, as in Llama 3 (Grattafiori et al. 2024, arXiv:2407.21783, section 3.3.2).
"""

from collections.abc import Iterator
from math import gcd

from hpml.modules.m08_case_studies.checks._layout_legal import KEYS, Cluster, Layout, Model


def divisors(number: int) -> list[int]:
    return [k for k in range(1, number + 1) if number % k == 0]


def layouts(model: Model, cluster: Cluster, without: str = "") -> Iterator[dict[str, int]]:
    """Every legal layout, whether or not it fits; `without` one rule: layers, heads or batch."""
    for tensor in divisors(cluster["ranks"]):
        for pipeline in divisors(cluster["ranks"] // tensor):
            data = cluster["ranks"] // tensor // pipeline
            if model["heads"] % tensor and without != "heads":
                continue
            if (model["layers"] % pipeline and without != "layers") or model["sequences"] % data:
                continue
            of_copy = model["sequences"] // data
            for micro_batches in divisors(of_copy) if without != "batch" else range(1, of_copy + 1):
                for stage in range(4):
                    sizes = (data, tensor, pipeline, stage, micro_batches)
                    yield dict(zip(KEYS, sizes, strict=True))


# What people forget or mistake, by the hint's key; some keys have several versions
MEMORY_MISTAKES = (
    "activations", "live:all", "live:one", "tenths", "tokens:data", "tokens:micro",
    "stages:early", "stages:late", "stages:none", "stages:two", "float32", "split", "depth",
    "gathered:none", "gathered:all", "gathered:own", "gathered:two",
)  # fmt: skip
SLOT_MISTAKES = (
    "bubble:none", "bubble:share", "bubble:compute", "level:inside", "level:across", "level:larger",
    "all_reduces:half", "all_reduces:factor", "all_reduces:depth", "two_levels:flat",
    "sends:none", "sends:one_way", "sends:always", "parts", "block", "rounds", "alone",
)  # fmt: skip
DATA_MISTAKES = (
    "free", "hidden:all", "hidden:none", "hidden:step", "hidden:slot", "hidden:compute",
    "group", "group:next", "two_levels:data", "two_levels:whole",
    "once:gathers", "once:gradients", "waited:never", "waited:first", "gathers",
    "level:block", "level:rest",
)  # fmt: skip


def nbytes(model: Model, layout: Layout, wrong: str = "") -> float:
    """Bytes that a rank of the first stage holds at its peak; with a mistake, if one is named."""
    d, t, p, stage, m = (layout[key] for key in KEYS)
    mine = 12 * model["layers"] * model["width"] ** 2 / (t * p if wrong != "split" else p)
    layers = model["layers"] / p
    late = {"stages:early": 1, "stages:late": -1, "stages:none": -9}.get(wrong, 0)
    parameter, gradient, state = (4, 4, 8) if wrong == "float32" else (2, 2, 12)
    held = mine * parameter / (d if stage + late >= 3 and wrong != "stages:two" else 1)
    held += mine * gradient / (d if stage + late >= 2 else 1)
    held += mine * state / (d if stage + late >= 1 else 1)
    if stage == 3 and wrong != "gathered:none":
        others = 1 if wrong == "gathered:own" else (d - 1) / d
        part = 2 / layers if wrong == "gathered:two" else min(1, 2 / layers)
        held += 2 * mine * others * (1 if wrong == "gathered:all" else part)
    if wrong == "activations":
        return held
    tokens = model["sequences"] * model["tokens"]
    tokens /= 1 if wrong == "tokens:data" else d
    tokens /= 1 if wrong == "tokens:micro" else m
    live = {"live:all": m, "live:one": 1}.get(wrong, min(m, p))
    each = (34 / t if wrong == "tenths" else 10 + 24 / t) * model["width"]
    return held + tokens * live * each * (model["layers"] if wrong == "depth" else layers)


def seconds(model: Model, cluster: Cluster, layout: Layout, wrong: str = "") -> float:
    """Seconds of a step; with a mistake, if one is named."""
    d, t, p, stage, m = (layout[key] for key in KEYS)
    inside = cluster["across" if wrong == "level:across" else "inside"]
    across = cluster["inside" if wrong == "level:inside" else "across"]

    def half(q: int, apart: int, nbytes: float, flat: bool = False) -> float:
        """A reduce-scatter or an all-gather of `nbytes` among q ranks, on two levels."""
        on_node, rest = divmod(cluster["per_node"], apart)
        g = 1 if rest and not (wrong == "level:rest" and on_node) else gcd(q, on_node)
        if wrong == "level:larger" and q * apart <= cluster["per_node"]:
            g = q
        if flat and g < q:
            g = 1
        share = g if wrong == "two_levels:whole" and apart == t * p else 1
        return nbytes * ((g - 1) / g / inside + share * (q / g - 1) / q / across)

    mine = 12 * model["layers"] * model["width"] ** 2 / t / p
    tokens = model["sequences"] * model["tokens"] / d / m  # of a micro-batch
    compute = 6 * mine * tokens / cluster["flops"]
    activations = 2 * tokens * model["width"]
    reduced = (2 if wrong == "all_reduces:half" else 4) * model["layers"]
    reduced /= 1 if wrong == "all_reduces:depth" else p
    reduced *= 1 if wrong == "all_reduces:factor" else 2
    reduced *= half(t, 1, activations, wrong == "two_levels:flat")
    sent = {"sends:none": 0, "sends:one_way": 1}.get(wrong, 2)
    sent *= p > 1 or wrong == "sends:always"
    block = p if wrong == "block" else t * p
    near = cluster["per_node"] % block == 0
    if wrong in ("level:larger", "level:block"):
        near = block <= cluster["per_node"]
    sent *= activations / (1 if wrong == "parts" else t) / (inside if near else across)
    slot = compute + reduced + sent
    slots = {"bubble:none": m, "bubble:share": m * (1 + (p - 1) / (m + p - 1)), "rounds": m * p}
    step = slots.get(wrong, m + p - 1) * slot
    if wrong == "bubble:compute":
        step = m * slot + (p - 1) * compute

    apart = {"group": t, "group:next": 1}.get(wrong, t * p)
    u = half(d, apart, 2 * mine, wrong == "two_levels:data")
    if wrong == "alone" and d == 1:
        u = 2 * mine / inside
    forward = (slot if wrong == "hidden:slot" else compute) / 3
    backward = compute if wrong == "hidden:compute" else 2 * forward
    backward *= m if wrong == "hidden:step" else 1
    if wrong in ("hidden:all", "hidden:none"):
        forward = backward = float("inf") if wrong == "hidden:all" else 0.0
    stage = 0 if wrong == "free" else stage
    if stage == 0:
        return step + max(0.0, 2 * u - backward)
    if stage == 1 and wrong == "waited:first":
        return step + max(0.0, 2 * u - backward)
    gradients = max(0.0, u - backward)
    if stage < 3:
        step += 0 if wrong == "waited:never" else u
        return step + gradients * (m if stage == 2 and wrong != "once:gradients" else 1)
    gathers = max(0.0, u - forward) + max(0.0, 2 * u - backward) - gradients
    if wrong == "gathers":
        gathers = 2 * u
    times = 1 if wrong == "once:gradients" else m
    return step + gradients * times + gathers * (1 if wrong == "once:gathers" else m)
