"""Exercise optimizers: SGD with Nesterov's momentum, Adam and AdamW, step for step as torch.optim.

`NesterovSGD(params, lr, momentum, weight_decay)`, `Adam(params, lr, betas, eps, weight_decay)` and
`AdamW` likewise, each with `step()` and an attribute `lr`. What the points rest on are the
parameters that the drive itself holds; that gradients are as they were is the rank's own record.
"""

from collections.abc import Callable, Sequence
from typing import Any

import torch

from hpml.checks.compare import described
from hpml.checks.contract import Check, Claim, Problem, Run
from hpml.checks.kits.drawn import Drawn
from hpml.checks.kits.ready_made import ALL_ELSE, OPTIMIZERS, OTHER_PROGRAMS
from hpml.files.sanitize import one_line
from hpml.modules.m04_frameworks.checks._optimizer_drive import (
    DESCRIBED,
    RULES,
    STEPS,
    drive,
    in_a_row,
    tensors,
)
from hpml.modules.m04_frameworks.checks._optimizer_picture import optimizers_picture

PLAYS = Drawn(__package__, "optimizers")
# Of the largest of 1 and the parameter. Right answers in other orders are within 3e-6 and 1e-14.
TOLERANCE = {torch.float32: 1e-4, torch.float64: 1e-9}


def told(run: Run, rule: str, name: str) -> tuple[Any, torch.Tensor]:
    """A case's parameters after each step, as the drive has them, and as they should be."""
    right = torch.tensor(run.expected["right"][rule][name], dtype=torch.float64)
    return run.values[0][rule][name]["after"], right


def unusable(run: Run, rule: str, name: str) -> Problem | None:
    """What keeps a case's values from being compared: an exception, another shape; or None."""
    value = run.values[0][rule][name]
    where = f"{rule}, {DESCRIBED[name]}"
    if text := value.get("raised"):
        if str(text).startswith("NotImplementedError"):
            return Problem(f"{rule} is not written yet", "start")
        at = f" in line {value['line']} of your answer" if value.get("line") else ""
        return Problem(f"{where}: {one_line(str(text))}{at}", "raised")
    got, right = told(run, rule, name)
    if not isinstance(got, torch.Tensor) or (got.shape, got.dtype) != (right.shape, right.dtype):
        return Problem(f"{where}: the parameters are {described(got)} now", "in_place")
    case = run.inputs[0][rule][name]
    if torch.equal(got, in_a_row(tensors(case, case["parameters"])).expand_as(got)):
        return Problem(f"{where}: no parameter has changed in {STEPS} steps", "unchanged")
    if not torch.isfinite(got).all():
        step = int((~torch.isfinite(got)).any(dim=1).nonzero()[0]) + 1
        return Problem(f"{where}: after step {step} a parameter is inf or NaN", "not_finite")
    return None


def first_wrong(run: Run, rule: str, name: str) -> tuple[str, str] | None:
    """Where a case's values leave the right ones, in words, and its value; or None.

    Of several parameters the first that is off in the first such step.
    """
    case = run.inputs[0][rule][name]
    parameters = tensors(case, case["parameters"])
    sizes = [each.numel() for each in parameters]
    for step, rows in enumerate(zip(*told(run, rule, name), strict=True), 1):
        parts = zip(parameters, *(row.split(sizes) for row in rows), strict=True)
        for number, (parameter, mine, due) in enumerate(parts):
            scale = due.abs().max().clamp(min=1.0)
            far = (mine - due).abs()
            if far.max() > TOLERANCE[parameter.dtype] * scale:
                worst = int(far.argmax())
                words = (
                    f"{rule}, {DESCRIBED[name]}: after step {step} a number of parameter {number} "
                    f"({case['dtypes'][number]}, shape {tuple(parameter.shape)}) is "
                    f"{mine[worst].item():.9g}"
                )
                return words, f"{due[worst].item():.9g}"
    return None


def imprecise(run: Run, rule: str, name: str) -> bool:
    """Whether a case's values are the right ones but for float64 parameters in lower precision."""
    got, right = told(run, rule, name)
    return bool(((got - right).abs() <= 1e-5 * right.abs().clamp(min=1.0)).all())


def explained(run: Run, rule: str, names: Sequence[str], claim: str) -> str | None:
    """The hint of the mistake from which the last parameters follow; None where none does."""
    got, right = (
        torch.cat([after[-1] for after in found])
        for found in zip(*(told(run, rule, name) for name in names), strict=True)
    )
    for hint, wrong in run.expected["mistakes"][rule][claim]:
        made = torch.tensor(wrong, dtype=torch.float64)
        if (got - made).abs().max() < 0.01 * (made - right).abs().max():
            return hint
    return None


def judged(run: Run, rule: str, names: Sequence[str], claim: str, otherwise: str) -> Problem | None:
    """The first of these cases that is not as torch.optim has it, with the hint that explains
    them all."""
    for name in names:
        if problem := unusable(run, rule, name):
            return problem
    for name in names:
        if seen := first_wrong(run, rule, name):
            words, due = seen
            if all(imprecise(run, rule, each) for each in names):
                return Problem(words, "precision", due)
            return Problem(words, explained(run, rule, names, claim) or otherwise, due)
    return None


def steps_of(rule: str) -> Callable[[Run], Problem | None]:
    """The judge of one rule: all gradients there, one learning rate."""

    def judge(run: Run) -> Problem | None:
        otherwise = "formula_of_sgd" if rule == "NesterovSGD" else "formula_of_adam"
        return judged(run, rule, ("plain", "decay"), "steps", otherwise)

    return judge


STEPS_OF = {rule: steps_of(rule) for rule in RULES}


def gaps(run: Run) -> Problem | None:
    """A rule whose plain steps are wrong is judged by them first, here and below."""
    for rule in RULES:
        if problem := STEPS_OF[rule](run) or judged(run, rule, ("gaps",), "gaps", "gaps"):
            return problem
    return None


def rates(run: Run) -> Problem | None:
    for rule in RULES:
        if problem := STEPS_OF[rule](run) or judged(run, rule, ("rates",), "rates", "rates"):
            return problem
    return None


def memory(run: Run) -> Problem | None:
    """Parameters in their own memory, gradients neither changed nor kept, no graph recorded."""
    for rule in RULES:
        if problem := STEPS_OF[rule](run):
            return problem
        for name in ("decay", "reused"):
            if problem := unusable(run, rule, name):
                return problem
            value = run.values[0][rule][name]
            if value["changed"]:
                return Problem(
                    f"{rule}, {DESCRIBED[name]}: by the rank's own record, {value['changed']} "
                    "times p.grad was another one after step() than before",
                    "changes_gradient",
                )
            views = value["views"]
            if not isinstance(views, torch.Tensor) or not torch.equal(views, value["after"][-1]):
                return Problem(
                    f"{rule}, {DESCRIBED[name]}: views of the parameters' memory, made before the "
                    "first step, do not have the new values",
                    "in_place",
                )
        if problem := judged(run, rule, ("reused",), "memory", "keeps_gradient"):
            return problem
        if run.values[0][rule]["decay"]["graphs"]:
            return Problem(
                f"{rule}, {DESCRIBED['decay']}: by the rank's own record, autograd recorded what "
                "step() computed",
                "graph",
            )
    return None


CHECK = Check(
    id="optimizers",
    title="Three optimizers, step for step",
    names=RULES,
    to_write="the three classes",
    allowed=ALL_ELSE,
    not_allowed=(OPTIMIZERS, OTHER_PROGRAMS),
    worlds=(1,),
    process_group=False,
    inputs=PLAYS.inputs,
    drive=drive,
    expect=PLAYS.expect,
    picture=optimizers_picture,
    claims=(
        Claim("NesterovSGD takes the steps of torch.optim.SGD", 3, STEPS_OF["NesterovSGD"]),
        Claim("Adam takes the steps of torch.optim.Adam", 3, STEPS_OF["Adam"]),
        Claim("AdamW takes the steps of torch.optim.AdamW", 3, STEPS_OF["AdamW"]),
        Claim("a parameter without a gradient is left alone, and so is its state", 2, gaps),
        Claim("a new learning rate holds from the next step on", 1, rates),
        Claim("parameters change in their own memory, and gradients are left alone", 2, memory),
    ),
    hints={
        "start": "Write NesterovSGD first: a list of buffers beside the list of parameters, and in "
        "step(), under torch.no_grad(), one loop over both. Adam is the same with two buffers and "
        "a count for each parameter. AdamW differs from Adam in one line: which?",
        "raised": "Start from the exception: it names a line. 'A leaf Variable that requires grad' "
        "means that a parameter is changed while autograd records: use torch.no_grad(). p.grad may "
        "be None. A parameter may have no dimension: it is a tensor all the same.",
        "unchanged": "step() has to write into the tensors that it was given. p = p - ... makes a "
        "new tensor and gives it the name p; nobody else sees it.",
        "in_place": "Others look at the same memory: views, buckets, a flat buffer. Write the new "
        "values into it (sub_, copy_, -= under torch.no_grad()), and do not give the parameter "
        "another tensor by p.data = ... .",
        "not_finite": "Do the buffers begin at 0? torch.empty_like has whatever was in the memory. "
        "In Adam t counts from 1: with t = 0 there is 1 − β⁰ = 0 to divide by.",
        "precision": "A parameter in float64 needs state in float64, and a count that is a plain "
        "number: torch.zeros(shape) is float32. torch.zeros_like has the parameter's dtype.",
        "plain_momentum": "This step does not look ahead: it is lr · b (which is also g + μ b with "
        "the buffer of the step before). Nesterov's adds μ times the new buffer to the gradient.",
        "no_momentum": "That is SGD without momentum: the buffer has no part in the step.",
        "averaged": "That is a mean, μ b + (1 − μ) g, as Adam has it. Momentum in PyTorch adds the "
        "whole gradient: μ b + g (its `dampening` is 0).",
        "decay_of_sgd": "In SGD the decay is part of the gradient: g + weight_decay · p goes into "
        "the buffer and into the step.",
        "halved_decay": "That is half of the decay. The derivative of ½ λ w² is λ w: add "
        "weight_decay · p.",
        "no_decay": "Without weight decay all is right, with it the step is the same as without.",
        "uphill": "These steps go uphill: subtract.",
        "forgets": "These steps are those of an optimizer that is new in each step. State lives "
        "from one step to the next: keep it on self, and per parameter.",
        "shared": "Parameters of one shape have their state in common here. Each has its own, "
        "however alike they are.",
        "uncorrected": "m and v begin at 0, so their first values are too small, v's most of all. "
        "Divide m by 1 − β₁ᵗ and v by 1 − β₂ᵗ: the bias correction.",
        "one_correction": "One of the two moments is not corrected for its start at 0.",
        "inside_root": "ε is under the root here. It is added to the root: √v̂ + ε.",
        "early_epsilon": "ε is added before v is corrected. Correct first: √(v / (1 − β₂ᵗ)) + ε.",
        "no_root": "v̂ is a mean of squares. Divide by its root.",
        "swapped": "The betas have changed places: the first is for m, the second for v.",
        "not_averaged": "m and v are means: β m + (1 − β) g, and the same with g².",
        "count_from_one": "t is 1 in a parameter's first step, when m and v have one gradient in "
        "them.",
        "count_of_calls": "t grows with each parameter here. It counts steps.",
        "decoupled_adam": "That is AdamW's decay, beside the gradient. Adam has it in the "
        "gradient: g + weight_decay · p goes into m and v.",
        "l2_in_adamw": "That is Adam's decay, in the gradient. AdamW keeps it out of m and v: the "
        "parameter itself becomes smaller by the factor 1 − lr · weight_decay.",
        "decay_after": "The decay comes after the step here, so it makes the step smaller too. "
        "First the decay, then Adam's step.",
        "without_rate": "The factor is 1 − lr · weight_decay: the decay follows the learning rate.",
        "formula_of_sgd": "Take one number by hand: d = g + weight_decay · p, b = μ b + d with b = "
        "0 at first, then p − lr · (d + μ b).",
        "formula_of_adam": "Take one number by hand through the formulas of the text, with t = 1, "
        "and compare m, v, m̂ and v̂ one after the other.",
        "zeros": "None is not a gradient of zeros. With zeros the buffers shrink, and momentum and "
        "decay go on. Leave the parameter out of this step.",
        "skips_zeros": "A gradient of zeros is a gradient: buffers shrink, momentum and decay go "
        "on, and the step counts. Only where p.grad is None the parameter is left alone.",
        "one_count": "t is the same for all parameters here. One that had no gradient has taken "
        "fewer steps, and its correction is that of its own.",
        "decays_anyway": "A parameter without a gradient is decayed all the same.",
        "lost_in_gaps": "A step without a gradient has wiped out the parameter's state. It stays, "
        "for the next gradient.",
        "gaps": "With all gradients there the steps are right. Where p.grad is None: no change of "
        "the parameter, of its buffers, or of its count. The next gradient finds all as it was.",
        "first_rate": "These are steps with the learning rate of the start. Read self.lr in each "
        "step.",
        "rate_in_buffer": "The buffer has learning rates in it: it is Sutskever's form. PyTorch's "
        "buffer has gradients alone, and the rate of today multiplies all of it.",
        "rates": "With one learning rate the steps are right. Read self.lr in each step, wherever "
        "it occurs: also in the decay.",
        "changes_gradient": "p.grad belongs to the caller of backward: step() reads it, and "
        "neither adds to it nor clears it. Compute in a tensor of your own.",
        "graph": "A parameter requires a gradient, so autograd records what is computed of it, and "
        "a buffer then keeps the graphs of all steps alive. To write into p.data does not change "
        "that: let nothing in step() be recorded.",
        "keeps_gradient": "The next backward may write into the same p.grad. A buffer that is that "
        "tensor changes with it: clone it, or add it to zeros.",
    },
)
