"""Exercise zero1: an optimizer whose states are spread over the ranks.

The steps are held against the plain optimizer's in one process. Who updates which parameter is
known from the factors that ranks ask for, the states' memory from the kernel.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from types import ModuleType
from typing import Any

import torch

from hpml.checks.compare import Difference, difference
from hpml.checks.contract import CannotJudge, Check, Claim, Problem, Run, Stage
from hpml.checks.kits.ready_made import ALL_ELSE, ZERO_OPTIMIZER
from hpml.checks.seeds import derived
from hpml.modules.m07_hybrid_parallelism.checks._held_picture import held_picture_of
from hpml.modules.m07_hybrid_parallelism.checks._memory import peaks
from hpml.modules.m07_hybrid_parallelism.checks._optimizer_hints import HINTS
from hpml.modules.m07_hybrid_parallelism.checks._optimizer_jobs import (
    DOUBLE,
    GROUPS,
    LATE,
    MOMENTS,
    SIZES,
    STEPS,
    UNUSED,
    drive,
    expect,
    inputs,
    late_group,
    run_job,
    serve,
    updated_in,
    updates,
)
from hpml.ranks.evidence import Call, RankEvidence
from hpml.ranks.parent.wire import sent_bytes

TOLERANCE = {torch.float64: 1e-9, torch.float32: 1e-5}  # all is done element by element
ONE_GROUP, LATE_OWNERS, GROUPED, WATCHED = range(3), 3, 4, 5  # jobs
# Of each parameter
BYTES = [torch.Size(size).numel() * (8 if n in DOUBLE else 4) for n, size in enumerate(SIZES)]
MOST = 1.6  # times the least bytes: with padding, or pickled
# Of the stage "memory": parameters of 4 MB, two states of Adam for each, and the temporary tensors
# of its step
TENSORS, EACH, TEMPORARY = 8, 4 * 2**20, 2
STATES, BEGINNING = 2, 100
TOLERATED = 4 * 2**20  # bytes of all else: messages under way, and what Python takes


def two_steps(make: Callable[..., Any], seed: int) -> list[dict[str, Any]]:
    """Two steps of Adam on 32 MB of parameters; returns what shows that they were taken: of each
    parameter its sum and its beginning."""
    parameters = [torch.nn.Parameter(torch.zeros(EACH // 4)) for _ in range(TENSORS)]
    optimizer = make(parameters, torch.optim.Adam, lr=0.1, foreach=False)
    draw = torch.Generator().manual_seed(seed)
    for parameter in parameters:
        parameter.grad = torch.empty_like(parameter).normal_(generator=draw)
    optimizer.step()
    optimizer.step()
    ends = [parameter.detach() for parameter in parameters]
    return [
        {"sum": float(end.sum(dtype=torch.float64)), "first": end[:BEGINNING].clone()}
        for end in ends
    ]


def plain(parameters: Any, kind: Callable[..., Any], **defaults: Any) -> Any:
    return kind(parameters, **defaults)


def train_large(answer: ModuleType, inputs: int) -> list[dict[str, Any]]:
    return two_steps(answer.ZeroOptimizer, inputs)


def alternatives(job: Mapping[str, Any]) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Jobs that people run in place of this one: a hint, what was seen, and the job."""
    bare = {"lr": job["defaults"]["lr"]}
    options = job["options"]
    yield "options", "without the optimizer's keyword arguments", {**job, "defaults": bare}
    zeros = [
        [
            torch.zeros_like(p) if g is None else g
            for g, p in zip(step, job["parameters"], strict=True)
        ]
        for step in job["gradients"]
    ]
    unused = "with a gradient of zeros for a parameter that has none in this step"
    yield "unused", unused, {**job, "gradients": zeros}
    if len(options) > 1:
        yield "groups", "without the groups' own options", {**job, "options": [{}] * len(options)}
        old = "that param_groups had at first"
        rate = [one for one in job["written"] if one[1] == "lr"]
        yield "written", f"with the options, but the learning rate, {old}", {**job, "written": rate}
        yield "written", f"with the options {old}", {**job, "written": []}
        _, option, value = job["written"][0]
        taken = [*options[:-1], {option: value, **options[-1]}]
        late = "with the late group's other options those of group 0, not its defaults"
        yield "late_options", late, {**job, "options": taken}


def steps_of_one_process(job: dict[str, Any], factors: list[list[float]]) -> list[list[Any]]:
    _, found = run_job(
        job,
        lambda kind, params, defaults: kind(params, **defaults),
        lambda step, number: factors[step][number],
        lambda name: None,
    )
    return found["after"]


def close(got: Any, expected: torch.Tensor) -> Difference | None:
    return difference(got, expected, TOLERANCE[expected.dtype])


def first_difference(got: Any, expected: list[torch.Tensor]) -> int | None:
    """The number of the first parameter that differs."""
    for number, tensor in enumerate(expected):
        if close(got[number], tensor):
            return number
    return None


def parity(run: Run, index: int) -> Problem | None:
    """Whether each rank's parameters in a job are, step by step, the plain optimizer's."""
    job = run.inputs["steps"][0]["jobs"][index]
    expected = run.expected["steps"][index]["after"]
    for step in range(STEPS):
        for rank, value in enumerate(run.stages["steps"].values):
            got = value[index]["after"][step]
            number = first_difference(got, expected[step])
            if number is not None:
                return why(run, index, job, step, rank, got, number)
    for rank, value in enumerate(run.stages["steps"].values):
        for number in value[index]["left"]:
            seen = f"after zero_grad(), rank {rank}'s parameter {number} still has its gradient"
            return Problem(seen, "zero_grad")
    return None


def why(
    run: Run, index: int, job: dict[str, Any], step: int, rank: int, got: Any, number: int
) -> Problem:
    expected = run.expected["steps"][index]["after"]
    before = expected[step - 1] if step else job["parameters"]
    of = f"with {job['optimizer']}, after step {step + 1}, rank {rank}'s parameter {number}"
    changed = [n for n, old in enumerate(before) if difference(expected[step][n], old)]
    stale = [n for n in changed if not difference(got[n], before[n])]
    if number in stale:
        everywhere = [value[index]["after"][step] for value in run.stages["steps"].values]
        nowhere = all(not difference(one[number], before[number]) for one in everywhere)
        if nowhere and (job["generator"] or job["groups"][number] in job["once"]):
            whose = "params" if job["generator"] else f"group {job['groups'][number]}'s params"
            seen = f"{of} has not changed on any rank; {whose} was a generator, as"
            return Problem(f"{seen} model.parameters() returns one", "iterable")
        if stale == changed:
            return Problem(f"{of} has not changed, nor has any other", "unchanged")
        if step >= LATE and {job["groups"][n] for n in stale} == {late_group(job)}:
            return Problem(f"{of}, of the group that was added late, has not changed", "late_group")
        return Problem(f"{of} still has the value of the step before", "not_sent")
    for hint, seen, other in alternatives(job):
        after = steps_of_one_process(other, run.inputs["steps"][0]["factors"][index])[step]
        if not close(got[number], after[number]):
            return Problem(f"{of} is that of the plain optimizer {seen}", hint)
    found = close(got[number], expected[step][number])
    hint = "moments" if step else "parity"
    return Problem(f"{of} is not the plain optimizer's: it {found}", hint, found.expected)


def steps_are_the_plain_ones(run: Run) -> Problem | None:
    return next(filter(None, (parity(run, index) for index in ONE_GROUP)), None)


def groups_count(run: Run) -> Problem | None:
    for index in (LATE_OWNERS, GROUPED):
        if problem := parity(run, index):
            return problem
    wrong = (wrong_groups(run, index) for index in range(WATCHED))
    return next(filter(None, wrong), None)


def wrong_groups(run: Run, index: int) -> Problem | None:
    """Whether each rank's param_groups are the plain optimizer's when a job is done."""
    expected = run.expected["steps"][index]["groups"]
    for rank, value in enumerate(run.stages["steps"].values):
        got = value[index]["groups"]
        if same(got, expected):
            continue
        numbers = [group.get("params") for group in got]
        right = [group["params"] for group in expected]
        many = f", {len(right)} groups" if len(right) > 1 else ""
        of = f"with {run.inputs['steps'][0]['jobs'][index]['optimizer']}{many}"
        seen = f"{of}, rank {rank}'s param_groups have"
        if numbers != right:
            return Problem(f"{seen} the parameters {numbers}", "param_groups", str(right))
        return Problem(f"{seen} other options than the plain optimizer's", "param_groups")
    return None


def owners(run: Run) -> dict[int, set[int]]:
    """Which ranks updated each parameter in the job that is watched."""
    found: dict[int, set[int]] = {number: set() for number in range(len(SIZES))}
    for rank in run.stages["steps"].ranks:
        for _, number in updates(rank.asked):
            found[number].add(rank.rank)
    return found


def updated_once(run: Run) -> Problem | None:
    counted = Counter(
        update for rank in run.stages["steps"].ranks for update in updates(rank.asked)
    )
    for step in range(STEPS):
        for number in updated_in(step):
            times = counted[step, number]
            seen = f"in step {step + 1}, parameter {number} was updated {times} times"
            if times == run.world_size > 1:
                return Problem(f"{seen}: by every rank", "replicated")
            if times != 1:
                left_out = "late_group" if GROUPS[number] == max(GROUPS) else "unchanged"
                return Problem(seen, "replicated" if times else left_out, "once")
    for number, ranks in owners(run).items():
        if len(ranks) > 1:
            seen = f"parameter {number} was updated by rank {min(ranks)} in one step and by rank"
            return Problem(f"{seen} {max(ranks)} in another: the moments stay behind", "moments")
    problem = parity(run, WATCHED)
    return problem and (steps_are_the_plain_ones(run) or groups_count(run) or problem)


def balanced(run: Run) -> Problem | None:
    if problem := updated_once(run):
        return problem
    world_size, loads = run.world_size, Counter()
    for number, (owner,) in owners(run).items():
        loads[owner] += BYTES[number]
    rank, load = max(loads.items(), key=lambda item: item[1])
    most = sum(BYTES) / world_size + max(BYTES) * (1 - 1 / world_size)
    if load <= most:
        return None
    return Problem(
        f"rank {rank} updates {load} bytes of {sum(BYTES)}; 1/{world_size} of all is "
        f"{sum(BYTES) / world_size:.0f}, and the largest parameter has {max(BYTES)}",
        "balance",
    )


def little_memory(run: Run) -> Problem | CannotJudge | None:
    stage = run.stages.get("memory")
    if stage is None:
        return None
    shared, tensor = STATES * TENSORS * EACH / run.world_size, STATES * EACH
    messages = TENSORS * EACH / run.world_size  # an owner's values may travel as one
    rest = (2 * TENSORS + TEMPORARY) * EACH + TOLERATED
    for rank, value in enumerate(stage.values):
        for number, (got, right) in enumerate(zip(value, run.expected["memory"], strict=True)):
            if difference(got["first"], right["first"], 1e-5) or not (
                abs(got["sum"] - right["sum"]) <= 1e-5 * EACH
            ):
                seen = f"in the steps that are counted, rank {rank}'s parameter {number}"
                return steps_are_the_plain_ones(run) or Problem(
                    f"{seen} is not the plain optimizer's", "unchanged"
                )
    found = peaks(stage)
    if not isinstance(found, list):
        return found
    for rank, peak in enumerate(found):
        if peak <= rest + shared + tensor + messages:
            continue
        return Problem(
            f"rank {rank} took {peak / 2**20:.0f} MB at its peak, by the kernel's "
            f"count; parameters, gradients and Adam's temporary tensors take "
            f"{rest / 2**20:.0f} MB, its states {STATES * TENSORS * EACH / 2**20:.0f} MB on all "
            f"ranks together: 1/{run.world_size} of them, those of one tensor, and messages of "
            f"1/{run.world_size} of the parameters are "
            f"{(shared + tensor + messages) / 2**20:.0f} MB",
            "memory",
        )
    return None


def calls_by_step(rank: RankEvidence) -> list[list[Call]]:
    """The calls within each of the optimizers' steps, over all jobs."""
    begins, ends = (
        [one.at for one in rank.asked if one.request == name and not one.refused]
        for name in MOMENTS
    )
    return [
        [call for call in rank.calls if begin <= call.issued <= end]
        for begin, end in zip(begins, ends, strict=True)
    ]


def travels_once(run: Run) -> Problem | None:
    peers = run.world_size - 1
    ranks = run.stages["steps"].ranks if peers else ()
    by_rank = [calls_by_step(rank) for rank in ranks]
    for number, calls in enumerate(zip(*by_rank, strict=True)):
        index, step = divmod(number, STEPS)
        job = run.inputs["steps"][0]["jobs"][index]
        absent = late_group(job) if step < LATE else None
        there = [n for n, group in enumerate(job["groups"]) if absent is None or group != absent]
        by_call = [(call, sent_bytes(call, rank)) for rank, own in enumerate(calls) for call in own]
        sent = sum(nbytes for _, nbytes in by_call)
        reduced = sum(nbytes for call, nbytes in by_call if call.operation == "all_reduce")
        least = peers * sum(BYTES[n] for n in there if n != UNUSED)
        once = peers * sum(BYTES[n] for n in there)
        seen = f"in a step, the ranks sent {sent:.0f} bytes, all together"
        if sent < least:
            alone = updated_once(run)  # where every rank updates all, nothing needs to be sent
            replicated = alone is not None and alone.hint == "replicated"
            return Problem(seen, "replicated" if replicated and not sent else "not_sent")
        if sent > MOST * once:
            more = f", {reduced:.0f} of them in all_reduce" if reduced else ""
            hint = "averaged" if reduced and sent - reduced >= least else "wire"
            return Problem(f"{seen}{more}; each parameter once to each other rank is {once}", hint)
    return None


def state_is_whole(run: Run) -> Problem | None:
    for index in range(WATCHED):
        job = run.inputs["steps"][0]["jobs"][index]
        expected = run.expected["steps"][index]["state"]
        got, *others = (value[index]["state"] for value in run.stages["steps"].values)
        of = f"{job['optimizer']}'s state, gathered on rank 0,"
        if any(other is not None for other in others):
            return Problem("a rank other than 0 returned a state, too", "gather", "None")
        if not isinstance(got, dict) or set(got) != set(expected):
            return Problem(f"{of} is not a dict of `state` and `param_groups`", "gather")
        if problem := states_differ(of, got["state"], expected["state"]):
            # Moments of other steps are wrong wherever they are gathered
            return (parity(run, index) if problem.hint == "steps" else None) or problem
        if not same(got["param_groups"], expected["param_groups"]):
            return Problem(
                f"{of} has other param_groups than the plain optimizer's", "state_groups"
            )
    return None


def states_differ(of: str, got: Any, expected: dict[str, Any]) -> Problem | None:
    if not isinstance(got, dict) or not set(expected) <= set(got):
        have = len(got) if isinstance(got, dict) else 0
        held = got if isinstance(got, dict) else {}
        in_place = all(n in expected and same(states, expected[n]) for n, states in held.items())
        seen = f"{of} has the states of {have} parameters of {len(expected)}"
        return Problem(seen, "gather" if in_place else "indices")
    if more := sorted(set(got) - set(expected)):
        return Problem(
            f"{of} has an entry for parameter {more[0]}, which was never updated", "no_state"
        )
    for number, states in expected.items():
        if same(got[number], states):
            continue
        for other, theirs in expected.items():
            if other != number and same(got[number], theirs):
                seen = f"{of} has parameter {other}'s moments in the place of parameter {number}'s"
                return Problem(seen, "indices")
        return Problem(f"{of} has other moments for parameter {number}", "steps")
    return None


def same(got: Any, expected: Any) -> bool:
    """Whether two plain values are equal, tensors within TOLERANCE."""
    if isinstance(expected, torch.Tensor):
        return close(got, expected) is None
    if isinstance(expected, dict):
        return (
            isinstance(got, dict)
            and set(got) == set(expected)
            and all(same(got[key], expected[key]) for key in expected)
        )
    if isinstance(expected, list):
        return isinstance(got, list) and len(got) == len(expected) and all(map(same, got, expected))
    return type(got) is type(expected) and got == expected


CHECK = Check(
    id="zero1",
    title="Optimizer states on all ranks",
    names=("ZeroOptimizer",),
    to_write="the optimizer that spreads another one's states",
    allowed=f"{ALL_ELSE}, all collectives and torch's optimizers too",
    not_allowed=(ZERO_OPTIMIZER,),
    inputs=lambda seed, world_size: {
        "steps": inputs(seed, world_size),
        "memory": [derived(seed, "memory")] * world_size,
    },
    expect=lambda given, world_size: {
        "steps": expect(given["steps"], world_size),
        "memory": two_steps(plain, given["memory"][0]) if world_size == 2 else None,
    },
    stages=(
        Stage("steps", drive, link="10gbit", serve=serve),
        Stage(
            "memory",
            train_large,
            world=lambda world: world if world == 2 else 0,
            memory=True,
        ),
    ),
    picture=held_picture_of(
        train_large, lambda seed, ranks: [seed] * ranks, "two steps of Adam on 32 MB of parameters"
    ),
    claims=(
        Claim("each step is the plain optimizer's", 2, steps_are_the_plain_ones),
        Claim("groups keep their options, and one can be added later", 2, groups_count),
        Claim("each parameter is updated by one rank, always the same", 1, updated_once),
        Claim("each rank has its share of the bytes to update", 1, balanced),
        Claim("a rank takes memory for its share of the states", 2, little_memory),
        Claim("each parameter travels once in a step", 1, travels_once, of_calls=True),
        Claim("rank 0 can gather the whole state", 1, state_is_whole),
    ),
    hints=HINTS,
)
