"""binding_plan: which CPUs each rank of a node gets, and the options of srun that say so.

`binding_plan(cpus, ranks, gpus, reserved)` returns a list of CPUs by rank, `srun_options(plan)` the
options. Nodes are described as `lscpu --extended` does; the numbering of CPUs differs among them.
They are drawn, and what they hold is counted, in the package `instructors`.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from types import ModuleType
from typing import Any

from hpml.checks.compare import described
from hpml.checks.contract import Check, Claim, Problem, Run
from hpml.checks.kits.drawn import Drawn
from hpml.checks.kits.ready_made import ANYTHING
from hpml.modules.m02_hardware.checks import _srun_step as srun_step
from hpml.modules.m02_hardware.checks._binding_picture import binding_picture
from hpml.ranks import mark

PLAYS = Drawn(__package__, "binding_plan")

Case = dict[str, Any]  # "cpus", "ranks", "gpus", "reserved"; "words" describe the node


def drive(answer: ModuleType, inputs: dict[str, Any]) -> dict[str, list[Any]]:
    """What each function returns, as plain lists of int or of str where it can be one."""

    def plain(value: Any) -> Any:
        try:
            return [[int(cpu) for cpu in cpus] for cpus in value]
        except (TypeError, ValueError):
            return repr(value)[:100]

    plans = []
    for one in inputs["cases"]:
        mark(f"{one['ranks']} ranks on a node of {len(one['cpus'])} CPUs")
        plans.append(
            plain(answer.binding_plan(one["cpus"], one["ranks"], one["gpus"], one["reserved"]))
        )
    options = []
    for one in inputs["plans"]:
        mark(f"srun_options({one['plan']!r})")
        options.append(answer.srun_options(one["plan"]))
    return {"plans": plans, "options": options}


def plans(run: Run) -> Iterator[tuple[Case, Any, dict[str, Any]]]:
    """Each node, the plan for it, and what is known of it."""
    given, found = run.inputs[0], run.values[0]
    yield from zip(given["cases"], found["plans"], run.expected["cases"], strict=True)


def no_plan(run: Run) -> Problem | None:
    """Whether each is a list of CPUs of the node for each rank, no CPU twice."""
    shapes = (shape_problem(asked, plan) for asked, plan, _ in plans(run))
    return next(filter(None, shapes), None)


def shape_problem(asked: Case, plan: Any) -> Problem | None:
    where = f"on {asked['words']}"
    if not isinstance(plan, list):
        return Problem(f"{where}: binding_plan returned {plan}", "plan_types")
    if len(plan) != asked["ranks"]:
        return Problem(f"{where}: a list of {len(plan)}", "ranks", f"{asked['ranks']}")
    known = {row["cpu"] for row in asked["cpus"]}
    for rank, cpus in enumerate(plan):
        if not cpus:
            uneven = len(set(Counter(asked["gpus"]).values())) > 1
            hint = "crowded" if uneven else "empty"
            return Problem(f"{where}: rank {rank} has no CPU", hint)
        if unknown := sorted(set(cpus) - known):
            return Problem(
                f"{where}: rank {rank} has CPU {str(unknown[0])[:40]}: there is none", "absent"
            )
    owner: dict[int, int] = {}
    for rank, cpus in enumerate(plan):
        for cpu in cpus:
            if cpu in owner:
                whose = f"rank {rank} twice" if owner[cpu] == rank else (
                    f"ranks {owner[cpu]} and {rank}"
                )  # fmt: skip
                return Problem(f"{where}: CPU {cpu} is given to {whose}", "shared")
            owner[cpu] = rank
    return None


def cores_are_their_own(run: Run) -> Problem | None:
    if problem := no_plan(run):
        return problem
    for asked, plan, due in plans(run):
        where, core_of = f"on {asked['words']}", {row["cpu"]: row for row in asked["cpus"]}
        free = due["free"]
        used: dict[int, int] = {}
        for rank, cpus in enumerate(plan):
            for cpu in cpus:
                core = core_of[cpu]["core"]
                if core not in free:
                    whose = "is reserved" if cpu in asked["reserved"] else (
                        "is a hardware thread of a reserved core"
                    )  # fmt: skip
                    return Problem(f"{where}: rank {rank} has CPU {cpu}, which {whose}", "reserved")
                if core in used:
                    seen = f"{where}: CPUs {used[core]} and {cpu} are one core"
                    every = sum(map(len, plan)) > len(free)
                    return Problem(seen, "hyperthreads" if every else "numbering")
                used[core] = cpu
    return None


def all_have_as_many_as_there_are(run: Run) -> Problem | None:
    if problem := no_plan(run):
        return problem
    for asked, plan, due in plans(run):
        core_of = {row["cpu"]: row["core"] for row in asked["cpus"]}
        counts = [len({core_of[cpu] for cpu in cpus}) for cpus in plan]
        where, most = f"on {asked['words']}", due["most"]
        if len(set(counts)) > 1:
            seen = f"{where}: ranks have from {min(counts)} to {max(counts)} cores"
            return cores_are_their_own(run) or Problem(seen, "uneven", f"{most} cores each")
        if counts[0] < most:  # more have only ranks that are not at home, or share cores
            sockets = {row["socket"] for row in asked["cpus"]}
            everyone = {cpu for cpus in plan for cpu in cpus}
            mine = {row["socket"] for row in asked["cpus"] if row["cpu"] in everyone}
            hint = "first_node" if mine < sockets else "idle"
            seen = f"{where}: each rank has {counts[0]} cores"
            # An answer that counts threads as cores, or the system's too, hears of that first
            return cores_are_their_own(run) or Problem(seen, hint, f"{most} cores each")
    return None


def ranks_stay_in_their_domain(run: Run) -> Problem | None:
    if problem := no_plan(run):
        return problem
    for asked, plan, due in plans(run):
        at = {row["cpu"]: row for row in asked["cpus"]}
        for rank, cpus in enumerate(plan):
            places = {at[cpu].get(due["level"], 0) for cpu in cpus}
            if len(places) > 1:
                sockets = len({at[cpu]["socket"] for cpu in cpus})
                kind, hint = ("sockets", "across") if sockets > 1 else ("NUMA nodes", "numa")
                return Problem(f"on {asked['words']}: rank {rank} runs on several {kind}", hint)
    return None


def ranks_are_beside_their_gpus(run: Run) -> Problem | None:
    if problem := no_plan(run):
        return problem
    for asked, plan, _ in plans(run):
        at = {row["cpu"]: row["numa"] for row in asked["cpus"]}
        for rank, gpu in enumerate(asked["gpus"]):
            if away := sorted({at[cpu] for cpu in plan[rank]} - {gpu}):
                seen = f"on {asked['words']}: rank {rank} runs on NUMA node {away[0]}"
                return Problem(seen, "gpu", f"{gpu}, where GPU {rank} is")
    return None


def steps(run: Run) -> Iterator[tuple[dict[str, Any], srun_step.Step | Problem]]:
    """Each plan, and its options as srun reads them."""
    for asked, options in zip(run.inputs[0]["plans"], run.values[0]["options"], strict=True):
        if not isinstance(options, list) or not all(isinstance(one, str) for one in options):
            yield asked, Problem(f"srun_options returned {described(options)}", "options_types")
            continue
        try:
            yield asked, srun_step.read(options)
        except ValueError as error:
            yield asked, Problem(str(error), "option")


def options_mean_the_plan(run: Run) -> Problem | None:
    for (asked, step), due in zip(steps(run), run.expected["plans"], strict=True):
        if isinstance(step, Problem):
            return step
        plan, ranks = asked["plan"], len(asked["plan"])
        if problem := counted(step, ranks):
            return problem
        if step.kind != "mask_cpu":
            seen = f"--cpu-bind={step.options['cpu-bind'][:60]}" if step.kind else "no --cpu-bind"
            hint = {"map_cpu": "map", "": "bind"}.get(step.kind, "automatic")
            return Problem(f"for {plan}: {seen}", hint)
        if problem := masked(step.masks, plan, due):
            return problem
        if not step.has_whole_node(ranks, asked["cpus"]):
            taken = [name for name in ("exclusive", "exact", "cpus-per-task")
                     if name in step.options]  # fmt: skip
            seen = f"with --{taken[0]} the step has not all {asked['cpus']} CPUs of the node"
            return Problem(seen, "exact")
        if "hint" in step.options:
            return Problem("--hint stands beside --cpu-bind", "beside")
    return None


def counted(step: srun_step.Step, ranks: int) -> Problem | None:
    per_node = step.options.get("ntasks-per-node")
    if per_node is None:
        total = step.options.get("ntasks")
        if total is None:
            return Problem("--ntasks-per-node is not given", "tasks")
        return Problem(f"--ntasks={total[:40]} counts the ranks of all nodes together", "ntasks")
    if per_node != str(ranks):
        return Problem(f"--ntasks-per-node={per_node[:40]}", "tasks", str(ranks))
    return None


def masked(texts: Sequence[str], plan: list[list[int]], due: dict[str, Any]) -> Problem | None:
    """Whether the masks are those of the plan; what was mistaken, if one thing explains them."""
    wanted = due["masks"]
    shown = ",".join(texts)[:100]
    try:
        got = [int(text, 16) for text in texts]
    except ValueError:
        return Problem(f"mask_cpu:{shown} is not a list of masks", "mask_text")
    if got == wanted:
        return None
    if [int(text) if text.isdecimal() and len(text) < 40 else -1 for text in texts] == wanted:
        hint = "decimal"
    else:
        hint = next((hint for hint, wrong in due["mistakes"] if wrong == got), "mask")
    return Problem(f"for {plan}: mask_cpu:{shown}", hint, ",".join(map(hex, wanted)))


def threads_are_as_many_as_cores(run: Run) -> Problem | None:
    for asked, step in steps(run):
        if isinstance(step, Problem):
            return step
        plan = asked["plan"]
        number = step.environment.get("OMP_NUM_THREADS")
        if number is None:
            return Problem("OMP_NUM_THREADS is not set by --export", "threads")
        if number != str(len(plan[0])):
            total = sum(map(len, plan))
            seen = (
                f"OMP_NUM_THREADS={number[:40]} for {len(plan)} ranks with {len(plan[0])} CPUs each"
            )
            beyond = number.isdecimal() and len(number) < 6 and int(number) * len(plan) > total
            return Problem(seen, "too_many" if beyond else "threads", str(len(plan[0])))
        if not step.keeps_environment:
            return Problem(f"--export={step.options['export'][:60]}", "export")
    return None


CHECK = Check(
    id="binding_plan",
    title="A core for every thread, and every rank at home",
    names=("binding_plan", "srun_options"),
    to_write="each rank's CPUs, and the options of `srun` for them",
    allowed=ANYTHING,
    worlds=(1,),
    process_group=False,
    inputs=PLAYS.inputs,
    drive=drive,
    expect=PLAYS.expect,
    picture=binding_picture,
    claims=(
        Claim("each rank has cores of its own, and none of the system's", 3, cores_are_their_own),
        Claim(
            "all have equally many, and no core is idle that they could have",
            2,
            all_have_as_many_as_there_are,
        ),
        Claim(
            "a rank stays in one NUMA node or socket where it can", 2, ranks_stay_in_their_domain
        ),
        Claim("a rank is beside its GPU", 1, ranks_are_beside_their_gpus),
        Claim("srun's options mean the plan", 3, options_mean_the_plan),
        Claim("a rank has as many threads as cores", 1, threads_are_as_many_as_cores),
    ),
    hints={
        "start": "Take the node of 2 × 4 cores in the text. Which CPUs are hardware threads of one "
        "core, and which of the four fields says so?",
        "plan_types": "binding_plan returns a list of lists: for each rank the numbers of its "
        "CPUs.",
        "empty": "Every rank has cores. If you chose CPUs by their numbers: which of them are on "
        "which socket differs from machine to machine, so look at the fields.",
        "crowded": "A NUMA node may have more GPUs than another, and so more ranks. Count those of "
        "each node: where most ranks share the cores, each has fewest, and no rank gets more.",
        "ranks": "The list has one item for each rank of the node.",
        "absent": "A CPU is what stands in the field 'cpu'. The number of a core, or a count, is "
        "no CPU.",
        "shared": "Cut the cores of a domain into pieces that do not overlap: rank k of it begins "
        "where rank k - 1 ends.",
        "hyperthreads": "Two hardware threads of one core share its arithmetic units. For matrix "
        "products the second adds next to nothing: give each rank one CPU of each core.",
        "numbering": "Which CPUs are one core differs: on some machines 0 and 1, on others 0 and "
        "64. Do not compute it from the number: rows with the same 'core' are one core.",
        "reserved": "The system keeps the whole core of a reserved CPU, with its other hardware "
        "thread. Take such cores out first.",
        "uneven": "In synchronous training all wait for the slowest: what a rank has more than "
        "the others is idle in every step. Which rank can have least?",
        "idle": "Count the free cores of each NUMA node (or socket) and divide by the ranks that "
        "run there. The smallest of these numbers is everybody's.",
        "first_node": "All ranks run on one socket, and the other is idle. Spread ranks over the "
        "NUMA nodes first; then cut each node into pieces.",
        "across": "Part of this rank's memory is at the other socket, behind the slower link. If "
        "ranks divide evenly among the NUMA nodes, or else among the sockets, each has one.",
        "numa": "A socket can have several NUMA nodes. Look at the field 'numa' first, and at "
        "'socket' only where ranks do not divide evenly among the NUMA nodes.",
        "gpu": "gpus[r] is the NUMA node that GPU r hangs on, and rank r uses GPU r. The ranks of "
        "a NUMA node need not be neighbours in number.",
        "options_types": "srun_options returns a list of str, one for each option: "
        "'--ntasks-per-node=4'.",
        "option": "`man srun` has every option. Write each with two dashes and its whole name.",
        "tasks": "srun starts as many ranks on each node as --ntasks-per-node says: how many does "
        "the plan have?",
        "ntasks": "--ntasks counts ranks over all nodes. With two nodes a plan of four ranks would "
        "get two on each. Ask for --ntasks-per-node.",
        "bind": "--cpu-bind says where ranks run: --cpu-bind=mask_cpu: and a mask for each rank.",
        "map": "map_cpu gives each rank one CPU, however many it lists. A set of CPUs for a rank "
        "is a mask: mask_cpu.",
        "automatic": "Here SLURM would choose the CPUs itself, by its own rules. The plan is "
        "yours: write it out with mask_cpu.",
        "mask_text": "A mask is a hexadecimal number, as hex() writes it; masks are separated by "
        "commas.",
        "decimal": "SLURM reads masks as hexadecimal, also without 0x: 15 is CPUs 0, 2 and 4.",
        "order": "The first mask is that of the node's first rank.",
        "bits": "CPU 0 is the lowest bit, the one that counts 1. CPU k counts 2 to the power k.",
        "mask": "A rank's mask has bit k set for each CPU k that it may use: add up 1 << k.",
        "exact": "The job has the whole node, and so has a step that asks for no CPUs of its own. "
        "One that does gets as many as it asks for, and SLURM chooses which: 'CPU binding outside "
        "of job step allocation' is what it says to masks with others.",
        "beside": "srun takes either --hint or --cpu-bind: leave --hint out.",
        "threads": "Libraries read OMP_NUM_THREADS. srun sets it for all ranks with "
        "--export=ALL,OMP_NUM_THREADS=...: how many CPUs has each?",
        "too_many": "Threads × ranks are more than there are CPUs: each rank would start threads "
        "for the whole node, and they take turns on its own CPUs.",
        "export": "Without ALL the ranks lose every other variable of the job, PATH among them.",
    },
)
