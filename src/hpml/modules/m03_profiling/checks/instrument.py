"""Exercise instrument: torch.profiler around a training loop, for some steps and on every rank.

The trace is a file that the answer's process wrote. Which step and which part an event belongs to
is shown by sizes that the parent handed out while the part was at work: see
`_profiled_training.py`. Which files there are was seen from outside.
"""

from collections.abc import Iterator, Sequence

import torch

from hpml.checks.contract import Check, Claim, Problem, Run, Stage
from hpml.checks.kits.ready_made import ANYTHING
from hpml.modules.m03_profiling.checks._instrument_picture import instrument_picture
from hpml.modules.m03_profiling.checks._profiled_training import (
    ELEMENT,
    FOLDER,
    MOST_BYTES,
    PARTS,
    drive,
    expect,
    inputs,
    is_named_after,
    serving,
)
from hpml.modules.m03_profiling.checks._recorded import NoTrace, Recorded, Span, recorded
from hpml.ranks.evidence import RankEvidence

NAMES = {"load": "loading", "forward": "forward", "backward": "backward", "update": "optimizer"}
MOST_EVENTS = 1000  # operators and allocations in a step; one of this training has 130
TOLERANCE = 1e-9  # the model is float64
STAGE = "train"


def requests(rank: RankEvidence) -> list[dict]:
    return [asked.request for asked in rank.asked if not asked.refused]


def parts_asked(rank: RankEvidence) -> list[tuple[str, bool]]:
    """The parts in the order in which the rank ran them, and whether it was being profiled."""
    return [(request["part"], request.get("profiled") is True) for request in requests(rank)]


def trains_as_before(run: Run) -> Problem | None:
    for rank, given, weights in zip(
        run.evidence.ranks, run.inputs[STAGE], run.expected, strict=True
    ):
        parts = [part for part, _ in parts_asked(rank)]
        for number, part in enumerate(parts):
            right = PARTS[number % len(PARTS)]
            if part != right:
                step = number // len(PARTS)
                return Problem(f"in step {step}, {part} was called", "loop", f"{right} first")
        if len(parts) != given["steps"] * len(PARTS):
            steps = len(parts) / len(PARTS)
            return Problem(f"the loop ran {steps:g} steps", "loop", f"{given['steps']}")
        got = rank.value["weights"]
        if got.shape != weights.shape or not torch.allclose(got, weights, atol=TOLERANCE):
            return Problem(f"rank {rank.rank} ends with other weights than the bare loop", "loop")
    return None


def profiles_no_more(run: Run) -> Problem | None:
    for rank, given in zip(run.evidence.ranks, run.inputs[STAGE], strict=True):
        on = {number // len(PARTS) for number, (_, on) in enumerate(parts_asked(rank)) if on}
        asked = set(window(given))
        if outside := sorted(on - asked):
            if (problem := right_steps(run)) and problem.hint == "step_place":
                return problem  # a window that opens early follows from it
            seen = f"the profiler was recording in step {outside[0]}"
            return Problem(seen, wrong_recording(on, given), shown(window(given)))
        if lacking := sorted(asked - on):
            seen = f"the profiler of rank {rank.rank} recorded {len(asked - set(lacking))} steps"
            return Problem(seen, "no_file" if not on else "window", shown(window(given)))
        ready = [request.get("ready") is True for request in requests(rank)]
        warm = min(asked) - ready.index(True) // len(PARTS) if True in ready else given["warmup"]
        if warm != given["warmup"]:
            steps = f"{warm} step{'s' * (warm != 1)}"
            seen = f"the profiler was switched on {steps} before the first that it recorded"
            return right_steps(run) or Problem(seen, "warmup", f"{given['warmup']}")
    return None


def wrong_recording(on: set[int], given: dict) -> str:
    """The hint for a profiler that was recording in these steps, some outside the window."""
    if 0 in on:
        return "first"
    if not on.issuperset(window(given)):
        return "window"
    later = min(on - set(window(given)), default=0)
    return "repeat" if later > window(given).stop else "outside"


def window(given: dict) -> range:
    first = given["wait"] + given["warmup"]
    return range(first, first + given["active"])


def shown(steps: Sequence[int]) -> str:
    return "steps " + ", ".join(map(str, steps))


def a_file_each(run: Run) -> Problem | None:
    files = run.stages[STAGE].files
    if files is None:
        return Problem("the ranks left very many files", "repeat", "one file from each rank")
    names = [name.rpartition("/")[2] for name in files if name.startswith(f"{FOLDER}/")]
    own = [[name for name in names if is_named_after(r, name)] for r in range(run.world_size)]
    if not names:
        return Problem("no file was written", "no_file")
    if not any(own):
        seen = f"no file has `rank0` in its name; there is {min(names)[:60]!r}"
        return Problem(seen, "rank_name")
    for rank, found in enumerate(own):
        if not found:
            return Problem(f"rank {rank} left no trace, and another rank did", "every_rank")
        if len(found) > 1:
            return Problem(f"rank {rank} left {len(found)} files", "repeat", "one")
        if not found[0].endswith((".json", ".json.gz")):
            return Problem(f"the trace of rank {rank} is {found[0][:60]!r}", "ending")
    if len(names) > run.world_size:
        return Problem(
            f"besides the traces there are {len(names) - run.world_size} files", "repeat"
        )
    return None


def traces(run: Run) -> Problem | list[Recorded]:
    """The ranks' traces, or why there is one that cannot be read."""
    if problem := a_file_each(run):
        return problem
    found = []
    for rank, value in enumerate(run.values):
        try:
            trace = recorded(value["trace"], MOST_BYTES)
        except NoTrace as why:
            return Problem(f"the file of rank {rank} is not a trace: {why}", "no_trace")
        if not trace.operators:
            return Problem(f"the trace of rank {rank} has no operator in it", "no_steps")
        if not trace.steps:
            return Problem(f"the trace of rank {rank} has no step marked in it", "no_steps")
        most = MOST_EVENTS * run.inputs[STAGE][rank]["active"]
        if trace.operators + len(trace.allocated) > most:
            return Problem(f"the trace of rank {rank} has {trace.operators} operators", "outside")
        found.append(trace)
    return found


def has_a_step(sizes: set[int], tickets: Sequence[int]) -> bool:
    """Whether the tickets of all parts of at least one step are among the sizes."""
    starts = range(0, len(tickets), len(PARTS))
    return any(sizes.issuperset(tickets[start : start + len(PARTS)]) for start in starts)


def has_shapes(run: Run) -> Problem | None:
    if isinstance(found := traces(run), Problem):
        return found
    for rank, (trace, given) in enumerate(zip(found, run.inputs[STAGE], strict=True)):
        sizes = {size for _, size in trace.shaped}
        if not has_a_step(sizes, given["tickets"]):
            return Problem(f"rank {rank}'s operators have no shapes of their inputs", "shapes")
    return None


def has_memory(run: Run) -> Problem | None:
    if isinstance(found := traces(run), Problem):
        return found
    for rank, (trace, given) in enumerate(zip(found, run.inputs[STAGE], strict=True)):
        sizes = {size for _, size in trace.allocated}
        if not has_a_step(sizes, [ELEMENT * ticket for ticket in given["tickets"]]):
            return Problem(f"rank {rank}'s trace has no allocations of its tensors", "memory")
    return None


def moments(trace: Recorded, tickets: Sequence[int]) -> Iterator[tuple[int, str, float]]:
    """The step, the part and the moment in microseconds of each event that has a ticket."""
    places: dict[float, tuple[int, int]] = {
        ticket: divmod(number, len(PARTS)) for number, ticket in enumerate(tickets)
    }
    sizes = [*trace.shaped, *((at, size / ELEMENT) for at, size in trace.allocated)]
    for at, size in sizes:
        if size in places:
            step, part = places[size]
            yield step, PARTS[part], at


def right_steps(run: Run) -> Problem | None:
    if isinstance(found := traces(run), Problem):
        return found
    for rank, trace, given in zip(run.evidence.ranks, found, run.inputs[STAGE], strict=True):
        asked = list(window(given))
        expected = shown(asked)
        there = sorted(trace.steps)
        if there != asked:
            on = {number // len(PARTS) for number, (_, on) in enumerate(parts_asked(rank)) if on}
            hint = wrong_window(there, on, given)
            return Problem(f"the trace has {shown(there[:9])}", hint, expected)
        seen = set()
        for step, part, at in moments(trace, given["tickets"]):
            if step not in trace.steps:
                return Problem(
                    f"in the marked steps there is the {part} of step {step}", "step_place"
                )
            if not trace.steps[step].has(at):
                inside = [number for number, span in trace.steps.items() if span.has(at)]
                where = f"inside the mark of step {inside[0]}" if inside else "in no step's mark"
                return Problem(f"the {part} of step {step} is {where}", "step_place")
            seen.add((step, part))
        if len(seen) < len(asked) * len(PARTS):
            seen_less = "the trace lacks operators of a step that is marked"
            return has_shapes(run) or Problem(seen_less, "shapes", expected)
    return None


def wrong_window(there: Sequence[int], on: set[int], given: dict) -> str:
    """The hint for steps that are not those asked for; `on`: those in which it was recording."""
    if there[0] == 0:
        return "first"
    later = there[0] >= window(given).stop
    return "repeat" if later and on.issuperset(window(given)) else "window"


def names_parts(run: Run) -> Problem | None:
    if isinstance(found := traces(run), Problem):
        return found
    if (problem := right_steps(run)) and problem.hint == "step_place":
        return problem
    for trace, given in zip(found, run.inputs[STAGE], strict=True):
        at = {(step, part): when for step, part, when in moments(trace, given["tickets"])}
        if not at:
            return has_shapes(run)  # without shapes, nobody can tell the operators' parts
        for number in sorted(trace.steps):
            if problem := wrong_names(trace, number, at):
                return problem
    return None


def wrong_names(trace: Recorded, number: int, at: dict) -> Problem | None:
    """What is wrong with the names in one step. `at`: moments in which parts were at work."""
    step = trace.steps[number]
    marks: dict[str, Span] = {}
    for part, name in NAMES.items():
        own = [one for one in trace.marks if one.name == name and step.has(one.start)]
        if len(own) != 1:
            seen = "no mark" if not own else f"{len(own)} marks"
            return Problem(f"step {number} has {seen} with the name {name!r}", "names", "one")
        marks[part] = own[0]
    for part, mark in marks.items():
        if not step.has(mark.end):
            return Problem(f"{NAMES[part]!r} in step {number} ends after the step", "step_place")
        when = at.get((number, part))
        if when is None or not mark.has(when):
            return Problem(f"in step {number} {NAMES[part]!r} is not around {part}", "around")
        others = [other for other in PARTS if other != part and (number, other) in at]
        if inside := [other for other in others if mark.has(at[number, other])]:
            return Problem(f"in step {number} {NAMES[part]!r} is around {inside[0]} too", "around")
    return None


CHECK = Check(
    id="instrument",
    title="A profiler around the loop",
    names=("train",),
    to_write="the loop with its profiler",
    allowed=ANYTHING,
    inputs=lambda seed, world_size: {STAGE: inputs(seed, world_size)},
    expect=lambda given, world_size: expect(given[STAGE], world_size),
    stages=(Stage(STAGE, drive, serve=serving(), looks=True),),
    shared_folder=True,
    picture=instrument_picture,
    claims=(
        Claim("each rank leaves one trace, with its rank in the name", 3, a_file_each),
        Claim("operators have the shapes of their inputs", 1, has_shapes),
        Claim("the trace has the memory that was allocated", 1, has_memory),
        Claim("it has the steps that were asked for, each with its own work", 4, right_steps),
        Claim("each part of a step has its name", 4, names_parts),
        Claim("it warms up before those steps, and records in no other", 1, profiles_no_more),
        Claim("the training is that of the bare loop", 1, trains_as_before),
    ),
    hints={
        "start": "What is recorded while a program still fills its caches and starts its threads? "
        "So a profiler skips some steps, warms up, and then records a few. Which four numbers does "
        "`torch.profiler.schedule` take for that, and who tells the profiler that a step is over?",
        "no_file": "The profiler calls `on_trace_ready` when a window is over. It learns that from "
        "its `step()`, once at the end of each step of the loop: without it, the window never "
        "opens. The function that you give it gets the profiler, which can `export_chrome_trace`.",
        "rank_name": "All ranks run the same program, in the same folder. A name that is the same "
        "on all of them is one file, and the last writer wins. `torch.distributed.get_rank()` is "
        "the number; it stands right behind the word: rank0, rank1.",
        "ending": "TensorBoard and Perfetto look for traces by their ending: .json or .json.gz.",
        "warmup": "`wait` steps pass without the profiler. Then it is switched on, and what it "
        "sees in `warmup` steps is thrown away: its own start is not in the trace. `schedule` "
        "takes both numbers, and their sum alone is not enough.",
        "every_rank": "A slow rank is found by comparing the ranks, so each needs its trace. "
        "Is there an `if` around the profiler, or in what `on_trace_ready` calls?",
        "repeat": "After a window, a schedule begins again with waiting, until `repeat` windows "
        "are recorded; 0 means for ever. How many are asked for?",
        "no_trace": "What `export_chrome_trace` writes is a whole file of JSON. Does anything "
        "write into it afterwards, or at the same time?",
        "shapes": "An operator's record has its inputs' shapes only if the profiler is asked for "
        "them: an argument of `profile`.",
        "memory": "Allocations are recorded only if the profiler is asked for them: an argument of "
        "`profile`.",
        "no_steps": "Steps are marked by a profiler with a `schedule`, whose `step()` is called in "
        "each step of the loop. And a window that was never finished leaves nothing.",
        "first": "The first steps pay for what is done once: caches, threads, memory pools. "
        "`schedule` has `wait` and `warmup` for them.",
        "window": "The first recorded step is number wait + warmup, counted from 0, and there are "
        "`active` of them. Does `step()` come exactly once in each step?",
        "outside": "Recording costs time and memory in each operator. It is for the window alone: "
        "let the `schedule` switch it on and off.",
        "step_place": "`step()` says that a step is over: it comes once in each step, after its "
        "last part and outside of all marks.",
        "names": "`with record_function(name):` around each part: loading, forward, backward, "
        "optimizer; in each step, once.",
        "around": "A mark covers what runs inside its `with`: one part, the whole of it, and "
        "nothing else.",
        "loop": "Profiling watches a loop and does not change it: the same calls, in the same "
        "order, in every step, also in those that are not recorded.",
    },
)
