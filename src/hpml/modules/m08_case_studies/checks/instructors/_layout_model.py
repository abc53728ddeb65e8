"""The cost model of choose_layout: bytes of a rank, seconds of a step, and usual mistakes in both.

A model's parameters are 12 · layers · width², its activations (10 + 24/t) · width bytes for each
token and layer (Korthikanti et al. 2022, Reducing Activation Recomputation in Large Transformer
Models, sections 4.1 and 4.2, equations 1 and 2, without the scores of attention). States are those
of `hpml.predict.zero`. A pipeline's step has m + p - 1 slots (Huang et al. 2019, GPipe, section
2.3), and min(m, p) live micro-batches (Narayanan et al. 2021, section 2.2.1). Tensor parallelism
has four all-reduces for each layer (Shoeybi et al. 2019, Megatron-LM, section 3).
"""

from collections.abc import Iterator

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
)  # fmt: skip
SLOT_MISTAKES = (
    "bubble:none", "bubble:share", "bubble:compute", "level:inside", "level:larger",
    "all_reduces:half", "all_reduces:factor", "all_reduces:depth",
    "sends:none", "sends:one_way", "sends:always", "block", "rounds", "alone",
)  # fmt: skip
DATA_MISTAKES = (
    "free", "hidden:all", "hidden:none", "hidden:step", "hidden:slot", "group",
    "once:gathers", "once:gradients", "waited", "waited:first",
)  # fmt: skip


def nbytes(model: Model, layout: Layout, wrong: str = "") -> float:
    """Bytes that a rank of the first stage holds at its peak; with a mistake, if one is named."""
    d, t, p, stage, m = (layout[key] for key in KEYS)
    mine = 12 * model["layers"] * model["width"] ** 2 / (t * p if wrong != "split" else p)
    late = {"stages:early": 1, "stages:late": -1, "stages:none": -9}.get(wrong, 0)
    parameter, gradient, state = (4, 4, 8) if wrong == "float32" else (2, 2, 12)
    held = mine * parameter / (d if stage + late >= 3 and wrong != "stages:two" else 1)
    held += mine * gradient / (d if stage + late >= 2 else 1)
    held += mine * state / (d if stage + late >= 1 else 1)
    if wrong == "activations":
        return held
    tokens = model["sequences"] * model["tokens"]
    tokens /= 1 if wrong == "tokens:data" else d
    tokens /= 1 if wrong == "tokens:micro" else m
    live = {"live:all": m, "live:one": 1}.get(wrong, min(m, p))
    each = (34 / t if wrong == "tenths" else 10 + 24 / t) * model["width"]
    return held + tokens * live * each * model["layers"] / (1 if wrong == "depth" else p)


def seconds(model: Model, cluster: Cluster, layout: Layout, wrong: str = "") -> float:
    """Seconds of a step; with a mistake, if one is named."""
    d, t, p, stage, m = (layout[key] for key in KEYS)

    def rate(block: int) -> float:
        inside = cluster["per_node"] % block == 0
        if wrong == "level:larger":
            inside = block <= cluster["per_node"]
        return cluster["inside" if inside or wrong == "level:inside" else "across"]

    mine = 12 * model["layers"] * model["width"] ** 2 / t / p
    tokens = model["sequences"] * model["tokens"] / d / m  # of a micro-batch
    compute = 6 * mine * tokens / cluster["flops"]
    activations = 2 * tokens * model["width"]
    reduced = (2 if wrong == "all_reduces:half" else 4) * model["layers"]
    reduced /= 1 if wrong == "all_reduces:depth" else p
    reduced *= (1 if wrong == "all_reduces:factor" else 2) * (t - 1) / t * activations / rate(t)
    sent = {"sends:none": 0, "sends:one_way": 1}.get(wrong, 2)
    sent *= p > 1 or wrong == "sends:always"
    sent *= activations / rate(p if wrong == "block" else d * t * p)
    slot = compute + reduced + sent
    slots = {"bubble:none": m, "bubble:share": m * (1 + (p - 1) / (m + p - 1)), "rounds": m * p}
    step = slots.get(wrong, m + p - 1) * slot
    if wrong == "bubble:compute":
        step = m * slot + (p - 1) * compute

    others = 1 if wrong == "alone" else (d - 1) / d
    part = others * 2 * mine / rate(d if wrong == "group" else d * t)
    behind = (slot if wrong == "hidden:slot" else compute) * 2 / 3
    behind *= m if wrong == "hidden:step" else 1
    if wrong == "hidden:all" or wrong == "hidden:none":
        behind = float("inf") if wrong == "hidden:all" else 0.0
    stage = 0 if wrong == "free" else stage
    whole = stage == 0 or (stage == 1 and wrong == "waited:first")  # an all-reduce
    gradients = max(0.0, (2 if whole else 1) * part - behind)
    gradients *= m if stage >= 2 and wrong != "once:gradients" else 1
    gathers = (0, 0 if whole else 1, 1, 2 if wrong == "once:gathers" else 2 * m)[stage]
    return step + gradients + part * (gathers if wrong != "waited" else 0)
