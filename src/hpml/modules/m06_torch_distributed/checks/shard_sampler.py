"""Exercise shard_sampler: which samples on which rank in which epoch.

A second job asks for the same orders, in other processes and in another sequence on each rank: an
order that rests on what the process computed before is another one there.
"""

import itertools
import random
from collections import Counter
from collections.abc import Callable, Iterator
from random import getstate  # bound now: an answer may replace them in their modules
from types import ModuleType
from typing import Any

import numpy as np
import torch
from numpy.random import get_state
from torch.random import get_rng_state

from hpml.checks.contract import Check, Claim, Problem, Run, Stage
from hpml.checks.kits.ready_made import ALL_ELSE, OTHER_PROGRAMS, SHARDING_SAMPLER
from hpml.modules.m06_torch_distributed.checks._sampler_hints import HINTS
from hpml.modules.m06_torch_distributed.checks._sampler_orders import (
    keeps_neighbours,
    padded,
    parts_of,
    stepwise,
)
from hpml.modules.m06_torch_distributed.checks._shards_picture import shards_picture
from hpml.ranks import mark

EPOCHS = 3
JOB, ANOTHER = "a job", "another job"
LISTS = ("whole", "again", "resumed", "other seed")  # what else than orders a rank brings back


def inputs(seed: int, world_size: int) -> dict[str, list[dict[str, Any]]]:
    """Lengths, most not divisible by the number of ranks, and two seeds for each.

    These are the same on all ranks. `noise` is the rank's own: it seeds the global generators
    before the sampler is used, as if augmentation or dropout had drawn from them. The rank's own
    are also the `turns` of another job: pairs of a sampler's index and an epoch's.
    """
    rng = random.Random(seed)
    many = rng.randrange(20, 60) * world_size
    lengths = [many, many + 1, many + world_size - 1, many + rng.randrange(world_size), 1]
    lengths += [rng.randrange(1, world_size + 1), 0, 7]
    samplers = [[length, *rng.sample(range(10**6), 2)] for length in lengths]
    epochs = [0, *rng.sample(range(1, 50), EPOCHS - 1)]
    ranks = [
        {
            "samplers": samplers,
            "rank": rank,
            "world_size": world_size,
            "epochs": epochs,
            "noise": rng.randrange(2**31),
        }
        for rank in range(world_size)
    ]
    turns = list(itertools.product(range(len(samplers)), range(EPOCHS)))
    return {
        JOB: ranks,
        ANOTHER: [rank | {"turns": rng.sample(turns, len(turns))} for rank in ranks],
    }


def order_of(sampler: Any, length: int, world_size: int) -> list[Any]:
    """What it yields: a list of ints; any other item is replaced by the name of its type."""
    limit = 2 * (length + world_size)  # an endless iterator is cut here
    return [plain(value) for value in itertools.islice(iter(sampler), limit)]


def plain(value: Any) -> Any:
    return value if type(value) is int else type(value).__name__


def drive(answer: ModuleType, inputs: dict[str, Any]) -> dict[str, Any]:
    """For each sampler: its order in each epoch, then those of new samplers; "whole" is that of the
    only rank of one."""

    def order(sampler: Any, length: int) -> list[Any]:
        return order_of(sampler, length, inputs["world_size"])

    def state() -> tuple[Any, ...]:
        numpy_state: Any = get_state()  # a tuple: only asked to is it a dict
        kind, keys, *rest = numpy_state
        torch_state = get_rng_state().numpy().tobytes()
        return torch_state, getstate(), kind, keys.tobytes(), *rest

    def make(length: int, seed: int) -> Any:
        return answer.ShardSampler(length, inputs["rank"], inputs["world_size"], seed)

    for generator in (random.seed, np.random.seed, torch.manual_seed):
        generator(inputs["noise"])
    before = state()
    seen = []
    for length, seed, other_seed in inputs["samplers"]:
        mark(f"{length} sample{'s' * (length != 1)}")
        sampler = make(length, seed)
        orders = [order(sampler, length)]  # epoch 0, without set_epoch
        for epoch in inputs["epochs"][1:]:
            sampler.set_epoch(epoch)
            orders.append(order(sampler, length))
        again = order(sampler, length)
        alone = answer.ShardSampler(length, 0, 1, seed)
        # Resumed: a new object, set directly to an epoch; earlier draws must not matter.
        resumed = make(length, seed)
        resumed.set_epoch(inputs["epochs"][1])
        seen.append(
            {
                "orders": orders,
                "whole": order(alone, length),
                "again": again,
                "resumed": order(resumed, length),
                "other seed": order(make(length, other_seed), length),
                "len": plain(len(sampler)),
            }
        )
    return {"samplers": seen, "untouched": state() == before}


def drive_another(answer: ModuleType, inputs: dict[str, Any]) -> list[list[Any]]:
    """In each of this rank's turns: a new sampler's order in that epoch."""
    taken = []
    for index, epoch in inputs["turns"]:
        length, seed, _ = inputs["samplers"][index]
        sampler = answer.ShardSampler(length, inputs["rank"], inputs["world_size"], seed)
        sampler.set_epoch(inputs["epochs"][epoch])
        taken.append(order_of(sampler, length, inputs["world_size"]))
    return taken


def expect(inputs: dict[str, list[dict[str, Any]]], world_size: int) -> list[int]:
    """By sampler, each rank's number of samples in an epoch: ceil(length / world size)."""
    return [-(-length // world_size) for length, *_ in inputs[JOB][0]["samplers"]]


def well_formed(judge: Callable[[Run], Problem | None]) -> Callable[[Run], Problem | None]:
    """Wrap a judge: it only gets runs in which every rank returned all its orders."""

    def whole(value: Any, run: Run) -> bool:
        return (
            isinstance(value, dict)
            and isinstance(value.get("samplers"), list)
            and len(value["samplers"]) == len(run.expected)
            and all(
                isinstance(said, dict)
                and all(isinstance(said.get(k), list) for k in LISTS)
                and isinstance(said.get("orders"), list)
                and len(said["orders"]) == EPOCHS
                and all(isinstance(order, list) for order in said["orders"])
                for said in value["samplers"]
            )
        )

    def guarded(run: Run) -> Problem | None:
        for rank, value in enumerate(run.stages[JOB].values):
            if not whole(value, run):
                return Problem(f"rank {rank} brought back no orders", "start")
        return judge(run)

    return guarded


def shards(run: Run) -> Iterator[tuple[int, int, list[Any]]]:
    """For each sampler: (length, right number of samples per rank, the ranks' orders)."""
    for index, (length, *_) in enumerate(run.inputs[JOB][0]["samplers"]):
        yield (
            length,
            run.expected[index],
            [value["samplers"][index] for value in run.stages[JOB].values],
        )


def not_indices(order: list[Any], length: int) -> Problem | None:
    for value in order:
        if type(value) is not int:
            return Problem(f"the sampler yields {value}, not int", "types")
        if not 0 <= value < length:
            return Problem(f"the sampler of {length} samples yields index {value}", "range")
    return None


def judge_cover(run: Run) -> Problem | None:
    for length, share, ranks in shards(run):
        for epoch, orders in zip(
            run.inputs[JOB][0]["epochs"],
            zip(*(rank["orders"] for rank in ranks), strict=True),
            strict=True,
        ):
            for order in orders:
                if problem := not_indices(order, length):
                    return problem
            counts = Counter(itertools.chain(*orders))
            of = case_of(run, length, epoch)
            missing = length - len(counts)
            twice = sum(count - 1 for count in counts.values())
            padding = share * run.world_size - length
            never = f"{of}: {missing} of the samples come up on no rank"
            if missing and twice > padding:
                hint = "own_order" if ranks_differ(run) else "blocks"
                return Problem(f"{never}, and others more than once", hint)
            if missing:
                return Problem(never, "tail")
            if twice > padding:
                hint = "own_order" if ranks_differ(run) else "padding"
                if takes_all(run):
                    hint = "everything"
                seen = f"{of}: samples come up again {twice} times"
                return Problem(seen, hint, f"{padding}, for padding")
            if counts and max(counts.values()) > -(-share * run.world_size // length):
                value, count = counts.most_common(1)[0]
                return Problem(f"{of}: index {value} comes up {count} times", "padding")
            whole = ranks[0]["whole"]
            if (
                epoch == 0
                and parts_of(whole, orders)
                and not parts_of(padded(whole, orders), orders)
            ):  # but for the padding, it is that order
                seen = f"{of}: what comes up again is not the order's start"
                return Problem(seen, "from_the_start")
    return None


def case_of(run: Run, length: int, epoch: int) -> str:
    samples = f"{length} sample{'s' * (length != 1)}"
    return f"{samples} on {run.world_size} rank{'s' * (run.world_size > 1)}, epoch {epoch}"


def takes_all(run: Run) -> bool:
    """Whether each rank takes the whole data set, of any length."""
    return run.world_size > 1 and all(
        len(set(said["orders"][0])) == length == len(said["orders"][0])
        for length, _, ranks in shards(run)
        for said in ranks
    )


def ranks_differ(run: Run) -> bool:
    """Whether ranks overlap even without padding: each then shuffles in its own order."""
    for length, _, ranks in shards(run):
        if length and length % run.world_size == 0:
            return len(set(itertools.chain(*(rank["orders"][0] for rank in ranks)))) < length
    return False


def judge_share(run: Run) -> Problem | None:
    for length, share, ranks in shards(run):
        for index, epoch in enumerate(run.inputs[JOB][0]["epochs"]):
            took = [len(rank["orders"][index]) for rank in ranks]
            of = case_of(run, length, epoch)
            if len(set(took)) > 1:
                return Problem(f"{of}: the ranks take {took} samples", "uneven")
            for rank, said in enumerate(ranks):
                if said.get("len") != took[rank]:
                    message = f"{of}: rank {rank} yields {took[rank]}, and len() is {said['len']}"
                    return Problem(message, "len")
            if took[0] != share:
                hint = "everything" if takes_all(run) else "many" if took[0] > share else "tail"
                return Problem(f"{of}: every rank takes {took[0]}", hint, str(share))
    return None


def judge_epochs(run: Run) -> Problem | None:
    epochs = run.inputs[JOB][0]["epochs"]
    for length, _, ranks in shards(run):
        if length < 20:  # too few: two random orders may be equal
            continue
        for rank, said in enumerate(ranks):
            for order in said["orders"]:
                if problem := not_indices(order, length):
                    return problem
                if len(order) < 10:
                    return Problem(f"{length} samples: rank {rank} takes {len(order)}", "tail")
            first, *later = said["orders"]
            if any(stepwise(order) for order in said["orders"]):
                return Problem(f"rank {rank} takes samples {first[:4]}... in order", "shuffle")
            for epoch, order in zip(epochs[1:], later, strict=True):
                if order == first:
                    return Problem(f"rank {rank} has epoch 0's order in epoch {epoch}", "set_epoch")
                if run.world_size > 1 and set(order) == set(first):
                    message = f"rank {rank} has the same samples in epochs 0 and {epoch}"
                    return Problem(message, "everything" if takes_all(run) else "own_block")
            if later[0] == later[1]:
                message = f"rank {rank} has the same order in epochs {epochs[1]} and {epochs[2]}"
                return Problem(message, "set_epoch")
        if kept := keeps_neighbours(ranks):
            rank, later, earlier = kept
            return Problem(
                f"on rank {rank}, most samples of epoch {epochs[later]} follow the same ones as in "
                f"epoch {epochs[earlier]}",
                "shuffle",
            )
    return None


def judge_repeatable(run: Run) -> Problem | None:
    epochs = run.inputs[JOB][0]["epochs"]
    for length, _, ranks in shards(run):  # orders of other things than ints cannot be compared
        for order in (order for said in ranks for order in said["orders"]):
            if (problem := not_indices(order, length)) and problem.hint == "types":
                return problem
    for length, _, ranks in shards(run):
        for rank, said in enumerate(ranks):
            if said["again"] != said["orders"][-1]:
                message = f"rank {rank}, epoch {epochs[-1]}: iterating twice gives two orders"
                return Problem(message, "own_generator")
            if said["resumed"] != said["orders"][1]:
                message = f"rank {rank}: a new sampler has another order for epoch {epochs[1]}"
                return Problem(message, "own_generator")
            if length >= 20 and said["other seed"] == said["orders"][0]:
                return Problem(f"rank {rank}: two seeds give one order", "seed")
    for rank, value in enumerate(run.stages[JOB].values):
        if value.get("untouched") is not True:
            message = f"rank {rank}: the sampler draws from, or seeds, a global generator"
            return Problem(message, "own_generator")
    for rank, taken in enumerate(run.stages[ANOTHER].values):
        samplers = run.stages[JOB].values[rank]["samplers"]
        turns = run.inputs[ANOTHER][rank]["turns"]
        if taken != [samplers[index]["orders"][epoch] for index, epoch in turns]:
            message = f"rank {rank}: in another job, the same seeds and epochs have other orders"
            return Problem(message, "own_generator")
    if any(judge(run) for judge in (judge_cover, judge_share, judge_epochs)):
        return None  # such parts cannot be compared with a whole order
    return order_of_another_size(run)


def order_of_another_size(run: Run) -> Problem | None:
    """Whether the order is another one where one rank takes all of it."""
    for length, _, ranks in shards(run):
        whole, orders = ranks[0]["whole"], [said["orders"][0] for said in ranks]
        if length >= 20 and not parts_of(whole, orders):
            # Read backwards, what is padded in front is padded behind.
            in_front = parts_of(whole[::-1], [own[::-1] for own in reversed(orders)])
            return Problem(
                f"{length} samples on {run.world_size} ranks: the parts are not every W-th sample, "
                "or blocks, of the order that one rank alone has with the same seed and epoch",
                "from_the_start" if in_front else "world_size",
            )
    return None


CHECK = Check(
    id="shard_sampler",
    title="Which samples, on which rank, in which epoch",
    picture=shards_picture,
    claims=(
        Claim(
            "every sample comes up, and is repeated only as padding needs",
            3,
            well_formed(judge_cover),
        ),
        Claim("all ranks take ceil(n / W) samples, and len() says so", 2, well_formed(judge_share)),
        Claim(
            "each epoch has a new order, and brings each rank other samples",
            3,
            well_formed(judge_epochs),
        ),
        Claim("seed and epoch alone decide the order", 2, well_formed(judge_repeatable)),
    ),
    hints=HINTS,
    inputs=inputs,
    stages=(Stage(ANOTHER, drive_another), Stage(JOB, drive)),
    expect=expect,
    names=("ShardSampler",),
    to_write="the order, the padding and the rank's part",
    allowed=ALL_ELSE,
    not_allowed=(SHARDING_SAMPLER, OTHER_PROGRAMS),
)
