"""Exercise fsdp: a wrapper that shards a module's weights, and gathers them where they are used.

It is written in two stages. The claims of STAGE_1 hold for gathers that block; those of STAGE_2
need the next gather under way while a layer computes, and weights in another dtype.
"""

import math
from collections import Counter
from typing import Any

import torch

from hpml.checks.budget import over_bytes
from hpml.checks.compare import difference, state_difference
from hpml.checks.contract import CannotJudge, Check, Claim, Problem, Run, Stage, fault
from hpml.checks.kits.ready_made import ALL_ELSE, FULLY_SHARDED
from hpml.modules.m07_hybrid_parallelism.checks._gathers import around_their_use, prefetched
from hpml.modules.m07_hybrid_parallelism.checks._gathers_picture import gathers_picture
from hpml.modules.m07_hybrid_parallelism.checks._half_training import (
    CLASSES,
    DEEP,
    HALF_STEPS,
    VOCABULARY,
    WIDTH,
    expect_half,
    half_inputs,
    train_half,
)
from hpml.modules.m07_hybrid_parallelism.checks._memory import peaks
from hpml.modules.m07_hybrid_parallelism.checks._sharded_hints import HINTS
from hpml.modules.m07_hybrid_parallelism.checks._sharded_training import (
    COMPARED,
    KINDS,
    LAYERS,
    TIED,
    USES,
    WIDE,
    drive,
    elements,
    expect,
    expect_large,
    inputs,
    large_inputs,
    serial,
    serve,
    small_elements,
    train_large,
)
from hpml.predict.collectives import all_reduce_bytes

TOLERANCE = 1e-9  # the model is float64: only the order of additions may differ
# Of the stage "large": bytes of a weight, and of all
EACH = WIDE * WIDE * 4
ALL = LAYERS * EACH
ROUNDING = 1e-5  # of weights in float32
WHOLE = 6  # weights, or gradients as large, that a rank may hold besides shards at one time
TOLERATED = 4 * 2**20  # bytes of all else: messages under way, and what Python takes
# Of the stage "half": how far updates may be from those of other roundings, of the largest one
ROUNDED = 0.1
REPRESENTABLE = 0.95  # of a gradient's elements, from which on it was added up in bfloat16


def shards_are_parameters(run: Run) -> Problem | None:
    sizes = elements()
    shards = [math.ceil(sizes[name] / run.world_size) for name in USES if name != "head"]
    expected = Counter(shards + small_elements())
    frozen = math.ceil(sizes["frozen"] / run.world_size)
    for rank, value in enumerate(run.stages["one model"].values):
        got = Counter(value["elements"])
        of = f"rank {rank}'s parameters()"
        tied = math.ceil(sizes["embed"] / run.world_size)
        if got[tied] > expected[tied]:
            return Problem(f"{of} has {got[tied]} shards of the tied weight", "tied", "one")
        if run.world_size > 1 and (whole := [name for name in sizes if got[sizes[name]]]):
            return Problem(f"{of} has {whole[0]}'s weight whole", "not_sharded")
        if missing := [n for n in small_elements() if got[n] < expected[n]]:
            return Problem(f"{of} lacks a replicated parameter of {missing[0]} elements", "small")
        if got != expected:
            more, less = sum((got - expected).values()), sum((expected - got).values())
            seen = f"{of} has {more} parameters of other sizes than asked for, and lacks {less}"
            return Problem(seen, "shard_size")
        for n, trained, there in zip(
            value["elements"], value["trained"], value["with_gradient"], strict=True
        ):
            is_frozen = n == frozen
            if is_frozen and (trained or there):
                return Problem(f"on rank {rank}, the frozen layer's shard is trained", "frozen")
            if trained and not there:
                seen = f"on rank {rank}, a parameter of {n} elements has no gradient after"
                return Problem(f"{seen} synchronize()", "no_gradient")
    return shards_what_it_should(run)


def shards_what_it_should(run: Run) -> Problem | None:
    """Whether the wrapper shards what the text names, by kind and by elements, and nothing else."""
    sizes = [math.ceil(n / run.world_size) if sharded else n for _, n, sharded in KINDS]
    for rank, value in enumerate(run.stages["one model"].values):
        left = Counter(value["kinds"])
        for (what, n, sharded), size in zip(KINDS, sizes, strict=True):
            if not left[size]:
                how = "has no shard of" if sharded else "does not have, whole,"
                seen = f"rank {rank}'s parameters() {how} {what} of {n} elements"
                return Problem(seen, "kinds")
            left[size] -= 1
        if more := left.total():
            return Problem(f"rank {rank}'s parameters() has {more} too many", "kinds")
    return None


def gathered_by_name(run: Run) -> Problem | None:
    expected = run.inputs["one model"][0]["state"]
    for rank, value in enumerate(run.stages["one model"].values):
        if found := state_difference(value["start"], expected):
            seen = f"before training, gather() on rank {rank} is not the parameter: {found}"
            return Problem(seen, "gather", found.expected)
    return None


def equals_big_batch(run: Run) -> Problem | None:
    """Whether each rank's gathered parameters are, step by step, those of one process."""
    if problem := gathered_by_name(run):
        return problem
    expected = run.expected["one model"]
    for step in COMPARED:
        for rank, value in enumerate(run.stages["one model"].values):
            got = value["after"][step]
            if state_difference(got, expected[step], TOLERANCE):
                return why(run, step, rank, got)
    return None


def why(run: Run, step: int, rank: int, got: dict[str, torch.Tensor]) -> Problem:
    expected = run.expected["one model"][step]
    found = state_difference(got, expected, TOLERANCE)
    of = f"after step {step + 1}, rank {rank}"
    given = run.inputs["one model"][rank]
    start = given["state"]
    wrong = {
        name
        for name, tensor in expected.items()
        if state_difference({name: got.get(name)}, {name: tensor}, TOLERANCE)
    }
    if not step:
        if not state_difference(got, start):
            return Problem(f"{of}'s parameters have not changed at all", "unchanged")
        batches = [own["steps"][0] for own in run.inputs["one model"]]
        (added_up,) = serial(start, given["optimizer"], [batches], 1)
        if all(not state_difference({n: got[n]}, {n: added_up[n]}, TOLERANCE) for n in wrong):
            return Problem(
                f"{of}'s {min(wrong)} is that of gradients added up, not averaged", "sum"
            )
        if wrong == set(TIED):
            return Problem(f"{of}'s tied weight is not that of both uses: {found}", "tied")
        if all(expected[name].numel() < 1024 for name in wrong):
            seen = f"{of}'s replicated parameters are not those of one process: {found}"
            return Problem(seen, "replicated")
        if all(name.startswith("frozen.") for name in wrong):
            return Problem(f"{of}'s frozen layer has changed: {found}", "frozen")
        return Problem(f"{of}'s weights are not those of one process: {found}", "parity")
    seen = f"{of}'s weights are not those of one process on the whole batch: {found}"
    return Problem(seen, "stale", found.expected)


def not_trained(run: Run) -> Problem | None:
    """A Problem where what is counted in the stage "large" is not a step of training."""
    for rank, shards in enumerate(run.stages["large"].values):
        right = run.expected["large"][rank]
        for layer in range(LAYERS):
            got = shards[layer] if layer < len(shards) else {"sum": math.nan, "first": None}
            if (
                difference(got["first"], right["first"], ROUNDING)
                or not abs(got["sum"] - right["sum"]) <= ROUNDING * WIDE**2
            ):
                seen = f"in the step that is counted, rank {rank}'s shard of weight {layer}"
                return equals_big_batch(run) or Problem(f"{seen} is not trained", "parity")
    return None


def never_whole(run: Run) -> Problem | CannotJudge | None:
    stage = run.stages.get("large")
    if stage is None:
        return None
    if problem := not_trained(run):
        return problem
    shards = 2 * ALL / run.world_size  # parameters and gradients
    found = peaks(stage)
    if not isinstance(found, list):
        return found
    for rank, peak in enumerate(found):
        if peak > shards + WHOLE * EACH + TOLERATED:
            return Problem(
                f"rank {rank} took {peak / 2**20:.0f} MB at its peak, by the "
                f"kernel's count; shards of parameters and gradients take {shards / 2**20:.0f} MB, "
                f"the largest weight {EACH / 2**20:.1f} MB, the whole model {ALL / 2**20:.0f} MB",
                "memory",
            )
    return None


def three_halves(run: Run) -> Problem | CannotJudge | None:
    stage = run.stages.get("large")
    if stage is None:
        return None
    if problem := not_trained(run):
        return problem
    enough = 1.5 * all_reduce_bytes(run.world_size, ALL)
    for rank in stage.ranks:
        # A rank that sends less has not gathered, or not scattered
        if rank.traffic is not None and rank.traffic.sent_bytes < 2 / 3 * enough:
            sent = f"rank {rank.rank} sent {rank.traffic.sent_bytes / 1e6:.1f} MB over its link"
            return Problem(f"{sent}: not all weights and gradients can be among them", "parity")
    return over_bytes(stage, [enough] * run.world_size, "wire")


def half_the_bytes(run: Run) -> Problem | CannotJudge | None:
    stage, world_size = run.stages.get("half"), run.world_size
    if stage is None:
        return None
    if problem := fault(stage):
        return problem
    sharded, small = (DEEP * WIDTH + VOCABULARY + CLASSES) * WIDTH, DEEP * WIDTH
    # What is replicated travels in float32, and so does the state at the end, once.
    steps = 1.5 * all_reduce_bytes(world_size, 2 * sharded) + all_reduce_bytes(
        world_size, 4 * small
    )
    once = all_reduce_bytes(world_size, 4 * sharded) / 2
    return over_bytes(stage, [HALF_STEPS * steps + once] * world_size, "half_wire")


def in_both_dtypes(run: Run) -> Problem | None:
    if "half" not in run.stages:
        return None
    if problem := fault(run.stages["half"]):
        return problem
    expected = run.expected["half"]
    start = run.inputs["half"][0]["state"]
    for rank, value in enumerate(run.stages["half"].values):
        of = f"with compute_dtype bfloat16, rank {rank}'s"
        after = value["after"]
        for name, tensor in expected["after"].items():
            got = after[name]
            if found := difference(got, tensor, math.inf):  # in dtype or shape
                is_tensor = isinstance(got, torch.Tensor)
                hint = "master" if is_tensor and got.dtype != tensor.dtype else "gather"
                return Problem(f"{of} {name}, after training, {found}", hint, found.expected)
            change, wanted = got - start[name], tensor - start[name]
            largest = wanted.abs().max().item()
            far = (change - wanted).abs().max().item() / largest
            if not far <= ROUNDED:
                if problem := equals_big_batch(run):
                    return problem  # gradients are wrong in any dtype
                return Problem(
                    f"{of} {name} has changed otherwise than with master weights in float32: by "
                    f"{100 * far:.0f} % of the largest change",
                    "master",
                )
        if problem := computed_otherwise(of, value["logits"], expected["logits"][rank]):
            return problem
        if added_in_half(max(value["gradients"], key=torch.numel), run.world_size):
            return Problem(f"{of} gradients were added up in bfloat16", "added_in_half")
        small = [one for one in value["gradients"] if one.numel() == WIDTH]
        if len(small) == DEEP and added_in_half(torch.cat(small), run.world_size):
            seen = f"{of} biases, which are replicated, have gradients that were added up in"
            return Problem(f"{seen} bfloat16", "replicated_in_half")
    return None


def computed_otherwise(of: str, logits: Any, expected: torch.Tensor) -> Problem | None:
    if found := difference(logits, expected, math.inf):  # in dtype or shape
        return Problem(f"{of} output {found}", "compute", found.expected)
    if not torch.equal(logits, logits.bfloat16().float()):
        return Problem(f"{of} last layer has outputs that bfloat16 does not have", "compute")
    if not (logits - expected).abs().max() <= ROUNDED * expected.abs().max():
        return Problem(f"{of} outputs are not those of the layers in bfloat16", "compute")
    return None


def added_in_half(gradient: torch.Tensor, world_size: int) -> bool:
    """Whether a gradient, times the number of ranks, which is a power of two, is in bfloat16 as it
    is."""
    total = world_size * gradient
    total = total[total != 0]
    return bool((total == total.bfloat16().float()).double().mean() > REPRESENTABLE)


STAGE_1 = (
    Claim("parameters() has this rank's shards, and what is small whole", 1, shards_are_parameters),
    Claim("a parameter can be gathered by its name", 1, gathered_by_name),
    Claim("each step is that of one process on the whole batch", 3, equals_big_batch),
    Claim(
        "a weight is gathered for forward, and for backward again",
        1,
        around_their_use,
        of_calls=True,
    ),
    Claim("no rank holds more than its shards and a few whole weights", 2, never_whole),
    Claim("a rank sends 3/2 of what data parallelism sends", 1, three_halves),
)
STAGE_2 = (
    Claim("the next weight is under way while a layer computes", 3, prefetched, of_calls=True),
    Claim("with compute_dtype a rank sends half the bytes", 1, half_the_bytes),
    Claim("layers compute in compute_dtype, and float32 is added up", 2, in_both_dtypes),
)

CHECK = Check(
    id="fsdp",
    title="Fully sharded data parallel by hand",
    names=("FullyShard",),
    to_write="the wrapper",
    allowed=f"{ALL_ELSE}, hooks of autograd and collectives too",
    not_allowed=(FULLY_SHARDED,),
    inputs=lambda seed, world_size: {
        "one model": inputs(seed, world_size),
        "half": half_inputs(seed, world_size),
        "large": large_inputs(seed, world_size),
    },
    expect=lambda given, world_size: {
        "one model": expect(given["one model"], world_size),
        "half": expect_half(given["half"], world_size),
        "large": expect_large(given["large"], world_size),
    },
    stages=(
        Stage("one model", drive, link="10gbit", serve=serve),
        # What raises here costs no points of STAGE_1
        Stage(
            "half",
            train_half,
            world=lambda world: world if world in (2, 4) else 0,
            link="10gbit",
            dies=True,
        ),
        Stage(
            "large",
            train_large,
            world=lambda world: world if world == 2 else 0,
            link="10gbit",
            memory=True,
        ),
    ),
    timeout=30.0,
    picture=gathers_picture,
    claims=(*STAGE_1, *STAGE_2),
    hints=HINTS,
)
