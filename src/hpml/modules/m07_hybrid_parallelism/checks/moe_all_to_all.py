"""Exercise moe_all_to_all: tokens travel to their experts and back, forward and backward.

`moe(x, choice, gate, experts, capacity)`, called on each rank with its own tokens and experts.
"""

from functools import partial
from typing import Any

import torch

from hpml.checks.budget import no_network, over_bytes
from hpml.checks.compare import difference
from hpml.checks.contract import CannotJudge, Check, Claim, Problem, Run, Stage, fault
from hpml.checks.kits.ready_made import ANYTHING
from hpml.modules.m07_hybrid_parallelism.checks._expert_tokens import (
    CALLS,
    MISTAKES,
    applied,
    by_call,
    enough_bytes,
    expect,
    forward_outputs,
    inputs,
    kept,
    rows_of,
    run_forward,
    serve,
    train,
)
from hpml.modules.m07_hybrid_parallelism.checks._tokens_picture import tokens_picture

TOLERANCE = 1e-9  # float64: only the order of additions may differ


def outputs_in(run: Run, fits: bool) -> Problem | None:
    """Whether all ranks have the output of one process, in the calls in which all tokens fit, or
    in the others."""
    for number, (all_fit, *_) in enumerate(CALLS["forward"]):
        if all_fit != fits:
            continue
        for rank, value in enumerate(run.stages["forward"].values):
            right = run.expected["forward"][number][rank]
            got = value[number] if isinstance(value, list) and number < len(value) else None
            if found := difference(got, right, TOLERANCE):
                seen = f"call {number + 1}, rank {rank}: the output {found}"
                if found.expected:
                    return Problem(seen, "types", found.expected)
                return Problem(seen, cause(run, number, rank, got, fits))
    return None


def cause(run: Run, number: int, rank: int, got: torch.Tensor, fits: bool) -> str:
    """The hint for the mistake that explains a wrong output."""
    given = run.inputs["forward"]
    right = run.expected["forward"][number][rank]
    for mistake in MISTAKES:
        if same(got, forward_outputs(given, mistake)[number][rank]):
            return mistake
    if same(directions(got), directions(right)):
        return "order"
    stays = kept(by_call(given, number)[0])[rank]
    if not fits and not torch.equal((got != 0).any(1), stays):
        return "capacity" if bool((got[~stays] != 0).any()) else "too_few"
    return "parity"


def directions(rows: torch.Tensor) -> torch.Tensor:
    """The rows, each divided by its length, in an order that does not depend on theirs."""
    unit = rows / rows.norm(dim=1, keepdim=True).clamp(min=1e-30)
    return unit[unit[:, 0].argsort()]


def same(got: Any, right: torch.Tensor) -> bool:
    return difference(got, right, TOLERANCE) is None


def all_that_fit(run: Run) -> Problem | None:
    return outputs_in(run, True)


def dropped(run: Run) -> Problem | None:
    return outputs_in(run, False)


def gradients(run: Run) -> Problem | None:
    """Whether the gradients of tokens and gates are those of one process."""
    if problem := fault(run.stages["training"]):
        return problem
    names = {"x": "the gradient of x", "gate": "the gradient of gate"}
    for step, ranks in enumerate(run.expected["training"]):
        for rank, right in enumerate(ranks):
            value = run.stages["training"].values[rank][step]
            for name, text in names.items():
                found = difference(value[name], right[name], TOLERANCE)
                if found is None:
                    continue
                seen = f"step {step + 1}, rank {rank}: {text} {found}"
                if value[name] is None:
                    return Problem(seen, "no_gradient" if name == "x" else "gate_gradient")
                if found.expected:
                    return Problem(seen, "types", found.expected)
                if not same(value["output"], right["output"]):
                    # Experts that have learned something else are the next claim's
                    return Problem(seen, "forward_first") if learned(run, step) else None
                return Problem(seen, "gate_gradient" if name == "gate" else "gradient")
    return None


def learned(run: Run, steps: int) -> bool:
    """Whether all experts are right after so many steps."""
    values = run.stages["training"].values
    return not steps or all(
        same(got, weights)
        for rank, right in enumerate(run.expected["training"][steps - 1])
        for expert, pair in zip(values[rank][steps - 1]["experts"], right["experts"], strict=True)
        for got, weights in zip(expert, pair, strict=True)
    )


def experts_learn(run: Run) -> Problem | None:
    """Whether after each step the experts' weights are those of one process."""
    if problem := fault(run.stages["training"]):
        return problem
    for step, ranks in enumerate(run.expected["training"]):
        for rank, right in enumerate(ranks):
            own = run.inputs["training"][rank]
            value = run.stages["training"].values[rank][step]["experts"]
            for number, (got, weights) in enumerate(zip(value, right["experts"], strict=True)):
                if all(map(same, got, weights)):
                    continue
                seen = f"after step {step + 1}, rank {rank}'s expert {own['first'] + number}"
                start = own["experts"][number]
                if all(map(torch.equal, got, start)):
                    return Problem(f"{seen} has not changed", "unchanged")
                outputs = [one[step]["output"] for one in run.stages["training"].values]
                before = all(
                    same(one, due["output"]) for one, due in zip(outputs, ranks, strict=True)
                )
                hint = "experts" if before else "forward_first"
                return Problem(f"{seen} is not that of one process", hint)
    return None


def once_each(run: Run) -> Problem | None:
    """Whether each expert is applied once in a call, on its rank, to all its tokens together."""
    if problem := fault(run.stages["training"]):
        return problem
    for stage, calls in CALLS.items():
        ranks = run.inputs[stage]
        each = len(ranks[0]["experts"])
        for rank, evidence in enumerate(run.stages[stage].ranks):
            for number, found in enumerate(applied(evidence.asked, stage)[: len(calls)]):
                rows = [sum(column) for column in zip(*rows_of(ranks, number), strict=True)]
                for expert in range(rank * each, (rank + 1) * each):
                    taken = [count for own, count in found if own == expert]
                    seen = f"in a call, rank {rank} applied expert {expert}"
                    if len(taken) > 1:
                        return Problem(f"{seen} {len(taken)} times", "once", "once")
                    if sum(taken) != rows[expert]:
                        text = f"{seen} to {sum(taken)} tokens"
                        return Problem(text, "rows", str(rows[expert]))
    return None


def only_what_must(run: Run) -> Problem | CannotJudge | None:
    """Whether no rank sends more than the tokens that stay in the computation, there and back."""
    if run.world_size == 1:
        return None
    if problem := fault(run.stages["training"]):
        return problem
    for stage in CALLS:
        evidence = run.stages[stage]
        enough = enough_bytes(run.inputs[stage], stage)
        if missing := no_network(evidence):
            return missing
        for rank, least in zip(evidence.ranks, enough, strict=True):
            if rank.traffic.sent_bytes < least:
                seen = f"rank {rank.rank} sent {rank.traffic.sent_bytes} bytes in all"
                why = all_that_fit(run) or dropped(run) or gradients(run) or experts_learn(run)
                hint = why.hint if why else "parity"
                return Problem(f"{seen}: not all tokens and outputs are among them", hint)
        if problem := over_bytes(evidence, enough, "wire"):
            return problem
    return None


CHECK = Check(
    id="moe_all_to_all",
    title="Tokens to their experts and back",
    names=("moe",),
    to_write="dispatch and combine, with their gradients",
    allowed=f"{ANYTHING}, all collectives and `torch.autograd.Function` too",
    picture=tokens_picture,
    inputs=inputs,
    expect=expect,
    stages=(
        Stage("forward", run_forward, link="10gbit", serve=partial(serve, stage="forward")),
        Stage("training", train, link="10gbit", serve=partial(serve, stage="training"), dies=True),
    ),
    claims=(
        Claim("each token gets its expert's output, times its gate", 3, all_that_fit),
        Claim("an expert takes `capacity` tokens, and what is dropped gets zero", 2, dropped),
        Claim("gradients come back to tokens and gates", 2, gradients),
        Claim("experts learn from all ranks' tokens", 2, experts_learn),
        Claim("each expert is applied once, to all its tokens", 1, once_each),
        Claim(
            "only tokens for other ranks travel, there and back", 2, only_what_must, of_calls=True
        ),
    ),
    hints={
        "start": "An all-to-all sends a piece of each rank's rows to each rank, and pieces may "
        "differ in length. What must a rank know before it can receive its pieces, and in which "
        "order must its rows be before it can send them?",
        "types": "The output has x's shape and dtype: a row for each of this rank's tokens, also "
        "when there are none.",
        "gate": "That is the expert's output. The gate is how sure the router was: multiply by it.",
        "gate_before": "The gate was multiplied into the token. An expert is not linear: multiply "
        "its output.",
        "capacity": "An expert takes `capacity` tokens in a call, from all ranks together. The "
        "others are dropped: their rows of the output are zero.",
        "per_rank": "Each rank counted for itself, so an expert took up to W times its capacity. "
        "What do you have to know of lower ranks' choices to find your token's place in the queue?",
        "backwards": "Those that come first are taken: rank 0's tokens before rank 1's, and on a "
        "rank in the order of x. You dropped from the other end.",
        "too_few": "Tokens were dropped for which there was room. Count those before it that chose "
        "the same expert: on lower ranks, and earlier on this one.",
        "dropped": "A dropped token has a row of zeros. What adds the token itself is the residual "
        "connection around this layer, not the layer.",
        "placement": "Expert e is experts[e % n] of rank e // n, where each rank has n: the first "
        "n are rank 0's.",
        "order": "These are the right rows at wrong places. You sorted tokens by their experts: "
        "what came back is in that order. Which token was which?",
        "parity": "Follow one token: where in the sorted rows, in which rank's piece, at which row "
        "of its expert's batch, and the whole way back. On arrival rows are sorted by the rank "
        "that sent them, not by expert.",
        "no_gradient": "x has no gradient. To autograd, all_to_all_single fills a tensor that has "
        "nothing to do with x. Put it into a torch.autograd.Function: backward is the same "
        "exchange, with the lengths of both directions swapped.",
        "gate_gradient": "A gate's gradient is the expert's output times the gradient of the "
        "output, summed over the row. Is the gate's product a product that autograd sees, behind "
        "the combine?",
        "gradient": "The output is right. Backward goes through combine first: gradients travel to "
        "the experts in the order in which tokens did, and from there back.",
        "forward_first": "The output was wrong already: look at the first two claims.",
        "unchanged": "This expert saw tokens and has learned nothing. Gradients of the output have "
        "to travel to the ranks of the experts: combine needs a backward, too.",
        "experts": "An expert is on one rank, and that rank has all its tokens. Its gradient is "
        "complete there: there is nothing to average, and nothing may be missing.",
        "once": "Small matrices are slow. Bring the tokens of all ranks together, and apply each "
        "expert once.",
        "rows": "An expert computes the tokens that are not dropped, and each of them once.",
        "wire": "A token travels to one rank: that of its expert. What is dropped, and what fills "
        "up to a fixed length, need not travel. Numbers that each rank should know, such as how "
        "many tokens chose which expert, are small.",
        "mismatch": "What rank a sends to rank b must be as long as what b expects from a: both "
        "follow from one table of tokens that are taken, from each rank for each expert. If a rank "
        "left out an exchange in backward: zeros that you make are connected to nothing; an "
        "expert's output for no rows is.",
        "hang": "Every rank takes part in every exchange, forward and backward, also with no token "
        "of its own: one that waits for a reply has returned without those that others are in. A "
        "rank whose experts got no tokens must still have its exchanges in the graph: an expert "
        "that is applied to no rows is connected, zeros that you make are not.",
        "raised": "Start from the exception. A rank can have no "
        "tokens, an expert can get none, and one rank may be all there is: try these by hand.",
    },
)
