"""From an answer to a verdict: play it at each world size, then judge the runs."""

import secrets
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass, replace

from hpml.answer import as_python
from hpml.answer.enforce import NotAllowed, NotImportable, NotReadable
from hpml.checks.calls_in_order import calls_in_order
from hpml.checks.contract import CannotJudge, Check, Claim, Problem, Run
from hpml.checks.fault_hints import hint_key
from hpml.checks.kits.gradients_travel import TRAVEL
from hpml.checks.plays import MissingName, Play, outcomes
from hpml.checks.printed import printed
from hpml.checks.reconcile import LEDGER, unreconciled
from hpml.checks.registry import find
from hpml.checks.source_lines import lines_named
from hpml.checks.verdict import Cause, ClaimResult, Verdict, in_building_order, outcome
from hpml.errors import UserError
from hpml.files.sanitize import one_line
from hpml.ranks import Evidence
from hpml.trace.launch_svg import launch_svg

# Hints for a failed launch, if the exercise has none of its own for that diagnosis.
GENERAL_HINTS = {
    "hang": "Every rank of a group must reach every collective of that group. Look for a call that "
    "only some ranks make: under an `if rank ==`, after an early return, in a loop whose length "
    "differs between ranks.",
    "mismatch": "A collective is one operation on all ranks together: same call, same order, same "
    "shape, same dtype. Print what each rank is about to bring.",
    "raised": "Start from the exception. If a line of your answer is named, begin there: what did "
    "each of its variables hold?",
    "memory": "A rank may not hold so much at one time: what can be freed, or held elsewhere?",
    "exited": "An answer returns; it does not leave the process.",
    "killed": "The process was ended from outside or crashed in native code; where the signal is "
    "SIGKILL, memory is the usual cause.",
    "aborted": "A library's own code ended the process. Gloo does so when more arrives than there "
    "is room for: do the tensors on both sides have one length and one dtype?",
    "what arrives": "Only bytes travel: the tensor that is received into must have the dtype of "
    "the one that was sent, and room for all of it. Compare the two lines that are named.",
    "never waited for": "isend and irecv return at once, with a handle, and the message is certain "
    "to travel only if somebody waits for that. Keep what they return, and call its wait() before "
    "the function ends.",
    "endless loop": "Nothing in this loop changes what its condition looks at. Which variable "
    "should be another one after each turn?",
    "one rank": "Here there is one rank, and no other to wait for. Look at the line that is named: "
    "what does it wait for, and who should bring it?",
    "apart": "Each rank must name the same world size, the same address and port, and a rank that "
    "no other has. On a cluster LOCAL_RANK begins at 0 on every node, and so does SLURM_LOCALID; "
    "and localhost is another machine on each: only rank 0's address leads to rank 0 from "
    "everywhere.",
    "no value yet": "On the way that this call took, a variable is read before it has a value. "
    "Does it get one only under an `if`, or in a loop that may take no turn?",
    "no such rank": "Ranks are 0 to the world size less one. With whom does the line that is named "
    "talk on the first rank, and with whom on the last? At such a border it needs an `if`, or, in "
    "a ring, the remainder by the world size.",
    "two dtypes": "Two dtypes meet in the line that is named, and the exception has both. Print "
    "the dtype of each tensor there: which one is not what you took it for? torch.tensor(3) is "
    "int64, torch.zeros(3) float32.",
    "limit": "It did not finish in time. Look for a loop whose end is never reached, or for work "
    "that grows with the world size.",
    "flood": "Some lines of what each rank printed are below. Print one step, not each turn of a "
    "loop; and does that loop ever end?",
    "import": "An answer stands alone, so that it runs alike here, where it is graded and on a "
    "cluster: the notebook's first text has the list of what it may import.",
    "not_allowed": "The exercise is to write this yourself: the line below its title says what it "
    "is to be made of. Whatever you write by hand may be as simple as you like.",
    LEDGER: "What your calls put in and what went over the links differ. Whatever ranks exchange "
    "goes through the functions that the exercise allows.",
    TRAVEL: "In each step every rank needs the mean of all ranks' gradients, and nothing more: "
    "samples stay with the rank that took them.",
    "refused": "Return what the exercise's docstring asks for: plain values and tensors.",
    "other cell": "An answer cell stands alone, so that it runs alike here, where it is graded and "
    "on a cluster: what another cell imports or defines is not there. Import or define it in this "
    "cell; if it is there, look at how the name is spelt.",
    "syntax": "An answer cell stands alone, and after its first line it is nothing but Python: no "
    "line begins with ! or %. Look at the line that is named, and at the one above it.",
}

# Hints for an answer that does not keep to its exercise's rules, by what it raised
_RULES = {
    NotImportable.__name__: "import",
    NotAllowed.__name__: "not_allowed",
    NotReadable.__name__: "not_allowed",
}

# Prefix of a message about a run with injected waits
WAITS = "when ranks come late: "


@dataclass(frozen=True)
class Examined:
    """A verdict, and the launch that explains it best: one that failed, else one of the last run.

    `error` is why the answer could not be judged, if the verdict is "not gradable".
    """

    verdict: Verdict
    evidence: Evidence | None = None
    error: Exception | None = None


def judge(
    exercise: str | Check,
    source: str,
    *,
    worlds: Sequence[int] | None = None,
    seed: int | None = None,
) -> Verdict:
    """The verdict on `source`, an answer cell's text, line 1 being its `%%answer` line.

    `worlds` defaults to the check's own world sizes. Inputs are new unless a `seed` is given; the
    verdict records the seed. Raises UserError for an unknown exercise. A fault that is not the
    answer's makes the verdict "not gradable".
    """
    return examine(exercise, source, worlds=worlds, seed=seed).verdict


def examine(
    exercise: str | Check,
    source: str,
    *,
    worlds: Sequence[int] | None = None,
    seed: int | None = None,
    delayed: bool = False,
    proxied: bool = False,
) -> Examined:
    """As `judge`, with the evidence for the verdict.

    With `delayed`, waits are injected before the collectives of the last play, at the largest world
    size, so that an answer with a rare race fails. If there is only one world size, it is played a
    second time for that. With `proxied`, calls are recorded by a process beside each rank, which
    the answer cannot reach, wherever the engine makes the default group (see `hpml.ranks.proxy`).
    With either, plays run one after the other, otherwise at the same time (see
    `hpml.checks.plays`).
    """
    check = exercise if isinstance(exercise, Check) else find(exercise)
    seed = secrets.randbelow(2**31) if seed is None else seed
    source = as_python(source)
    if not source.strip():
        return Examined(_unwritten(check, f"{check.id}: the answer is empty", seed, "unwritten"))
    runs: list[Run] = []
    plays = [Play(world) for world in sorted(worlds or check.worlds)]
    if delayed:
        plays = [*(plays[:-1] or plays), Play(plays[-1].world_size, delayed=True)]
    plays = [replace(play, proxied=proxied) for play in plays]
    together = not (delayed or proxied)
    with closing(outcomes(check, source, plays, seed, side_by_side=together)) as played:
        for play in plays:
            try:
                run, fault = next(played)
            except Exception as error:  # always our fault: the answer runs in other processes
                verdict = _not_gradable(check, _why(error, play.world_size), seed)
                return Examined(verdict, runs[-1].evidence if runs else None, error)
            if fault is not None:
                return Examined(
                    _shown(_faulty(check, run, fault, seed), check, run, fault, source), fault
                )
            runs.append(run)
    try:
        claims = in_building_order([_decide(check, claim, runs) for claim in check.claims])
    except Exception as error:
        return Examined(_not_gradable(check, _one_line(error), seed), runs[-1].evidence, error)
    status, headline = outcome(claims)
    failed = [claim for claim in claims if claim.state == "fails"]
    wrong_at = failed[0].world_size if failed else None
    shown = next((run for run in runs if run.world_size == wrong_at), runs[-1])
    if check.worlds == (1,):  # "with 1 rank: network of 16 ranks" would only confuse
        claims = tuple(replace(claim, world_size=None) for claim in claims)
    verdict = Verdict(check.id, check.title, status, claims, headline, seed)
    evidence = _explaining(shown, failed)
    return Examined(_shown(verdict, check, shown, evidence, source), evidence)


def _explaining(run: Run, failed: Sequence[ClaimResult]) -> Evidence:
    """The run's launch whose end a failed claim's message reports, else its last one."""
    texts = "\n".join(claim.message for claim in failed)
    told = (one for one in run.stages.values() if one.diagnosis and one.diagnosis.sentence in texts)
    return next(told, run.evidence)


def _shown(verdict: Verdict, check: Check, run: Run, evidence: Evidence, source: str) -> Verdict:
    """The verdict, with what a learner wants to see of the run that explains it.

    That never costs an answer its verdict: what ranks reported may be such that nobody can have
    made it, and is then left out.
    """
    if verdict.cause in ("unwritten", "missing name", "not allowed"):
        return replace(verdict, lines=lines_named(source, [verdict.headline]))
    texts = [verdict.headline, *(claim.message for claim in verdict.claims)]
    verdict = replace(
        verdict,
        shown_at=None if check.worlds == (1,) else evidence.world_size,
        printed=printed(run.stages, check.stages),
        lines=lines_named(source, texts),
    )
    if verdict.status != "failed":
        return verdict
    ranks = evidence.world_size
    try:
        named = [number for number, _ in verdict.lines]
        calls = calls_in_order(evidence, named)
        title = f"The calls of {ranks} ranks" if ranks > 1 else "The calls of the one rank"
        drawn = launch_svg(evidence, title, inside=True, lines=named) if calls else ""
        return replace(verdict, case=_case(run, evidence), calls=calls, timeline=drawn)
    except Exception:
        return verdict


def _case(run: Run, evidence: Evidence) -> str:
    """What a launch was at when it failed: the last mark of a drive's, on a rank that caused it.

    A rank that has returned is further on than the ranks that wait for it: then it is one of
    these. Without marks it is the stage's name, if there are several.
    """
    if evidence.diagnosis is None:
        return ""
    there = [rank for rank in evidence.ranks if rank.marks and rank.end != "returned"]
    causes = [rank for rank in there if rank.rank in evidence.diagnosis.ranks]
    for rank in causes or there:
        return one_line(rank.marks[-1].name)
    stages = [name for name, of in run.stages.items() if of is evidence]
    return stages[0] if len(run.stages) > 1 and stages else ""


def _decide(check: Check, claim: Claim, runs: Sequence[Run]) -> ClaimResult:
    unjudged = ""
    for run in runs:
        problem = claim.judge(run) or (disagreement(run) if claim.of_calls else None)
        if isinstance(problem, CannotJudge):
            unjudged = unjudged or problem.why
        elif problem is not None:
            return _failed(check, claim, problem, run)
    if unjudged:
        return ClaimResult(claim.name, False, claim.points, unjudged, judged=False)
    return ClaimResult(claim.name, True, claim.points)


def disagreement(run: Run) -> Problem | None:
    """The first of a run's launches in which calls and traffic do not agree.

    A launch that ended otherwise than it should is none of them: calls under way then have sent
    nothing yet, and the claims that rest on it fail already.
    """
    whole = [stage for stage in run.stages.values() if stage.diagnosis is None]
    return next(filter(None, map(unreconciled, whole)), None)


def _failed(check: Check, claim: Claim, problem: Problem, run: Run | None) -> ClaimResult:
    hint = check.hints.get(problem.hint) or GENERAL_HINTS[problem.hint]
    message, world = problem.message, None
    if run is not None:
        message = f"{WAITS if run.delayed else ''}{_on_other_ranks(run, message)}{message}"
        world = run.world_size
    return ClaimResult(
        claim.name,
        False,
        claim.points,
        message,
        hint,
        problem.hint,
        world,
        expected=problem.expected,
    )


def _on_other_ranks(run: Run, message: str) -> str:
    """For a message about a stage with another number of ranks than the play: which one, in words.

    The play's own number stands before it: "with 1 rank: resume, with 2 ranks: ranks 0 and 1 …".
    """
    for name, stage in run.stages.items():
        said = stage.diagnosis and stage.diagnosis.sentence == message
        if said and stage.world_size != run.world_size:
            return f"{name}, with {stage.world_size} rank{'s' if stage.world_size > 1 else ''}: "
    return ""


def _faulty(check: Check, run: Run, evidence: Evidence, seed: int) -> Verdict:
    """The verdict if not all ranks returned: no claim can be judged from such a run."""
    diagnosis = evidence.diagnosis
    assert diagnosis is not None
    raised = next((rank.raised for rank in evidence.ranks if rank.raised), None)
    if diagnosis.kind == "raised" and raised is not None:
        if raised.kind == "NotImplementedError":
            where = f", line {raised.line} of your answer" if raised.line else ""
            return _unwritten(
                check,
                f"{check.id} is not written yet: put your code where "
                f"`raise NotImplementedError()` stands{where}",
                seed,
                "unwritten",
            )
        if raised.kind == MissingName.__name__:
            headline = f"{check.id}: your answer does not define {raised.message}"
            return _unwritten(check, headline, seed, "missing name")
        if hint := _RULES.get(raised.kind):
            problem = Problem("not judged until the answer keeps to the rules", hint)
            return _unjudged(check, f"{check.id}: {raised.message}", seed, "not allowed", problem)
    ranks = f"{evidence.world_size} rank{'s' if evidence.world_size > 1 else ''}"
    headline = f"with {ranks}: {WAITS if run.delayed else ''}{diagnosis.sentence}"
    hint = hint_key(evidence, check.hints, max(check.worlds))
    problem = Problem("not judged until the answer runs to its end", hint)
    claims = tuple(
        replace(claim, world_size=run.world_size) for claim in _not_reached(check, problem)
    )
    stacks = {f"rank {rank} of {evidence.world_size}": t for rank, t in diagnosis.stacks.items()}
    return Verdict(check.id, check.title, "failed", claims, headline, seed, stacks, diagnosis.kind)


def _unwritten(check: Check, headline: str, seed: int, cause: Cause) -> Verdict:
    return _unjudged(check, headline, seed, cause, Problem("nothing to judge yet", "start"))


def _unjudged(check: Check, headline: str, seed: int, cause: Cause, problem: Problem) -> Verdict:
    claims = _not_reached(check, problem)
    return Verdict(check.id, check.title, "failed", claims, headline, seed, cause=cause)


def _not_reached(check: Check, problem: Problem) -> tuple[ClaimResult, ...]:
    """All claims, where none was judged: each with what has to hold first, and its hint."""
    return tuple(
        replace(_failed(check, claim, problem, None), reached=False) for claim in check.claims
    )


def _not_gradable(check: Check, why: str, seed: int) -> Verdict:
    problem = Problem("could not be judged", "start")
    claims = tuple(
        replace(_failed(check, claim, problem, None), hint="", hint_key="", judged=False)
        for claim in check.claims
    )
    headline = f"{check.id} could not be graded, which is not your answer's fault: {why}"
    return Verdict(check.id, check.title, "not gradable", claims, headline, seed, cause="ours")


def _why(error: Exception, world: int) -> str:
    """Why a play could not run: a UserError's own text, else with the world size."""
    if isinstance(error, UserError):
        return str(error)
    return f"world size {world}: {_one_line(error)}"


def _one_line(error: Exception) -> str:
    return f"{type(error).__name__}: {error}".split("\n")[0][:300]
