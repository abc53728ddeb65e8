"""Exercise fit_alpha_beta: a network's α and β from an all-reduce micro-benchmark.

`fit_alpha_beta(sizes, seconds, ranks) -> (alpha, beta)` and `half_size(alpha, beta, ranks) ->
bytes`. The networks are planted (`_fit_cases.py`).
"""

import math
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any

from hpml.checks.compare import described, is_number
from hpml.checks.contract import Check, Claim, Problem, Run
from hpml.checks.kits.ready_made import ANYTHING
from hpml.modules.m08_case_studies.checks._fit_cases import (
    NOISY,
    QUIET,
    SHARED,
    SIZES,
    Network,
    half_cases,
    networks,
    ring_seconds,
)
from hpml.modules.m08_case_studies.checks._fit_mistakes import (
    OF_BETA,
    OF_THE_DISTURBED,
    OF_THE_FIT,
    OF_THE_MODEL,
    Fitted,
)
from hpml.modules.m08_case_studies.checks._fit_picture import fit_picture
from hpml.modules.m08_case_studies.checks._returned import exception_in_words, returned

# Of the planted α and β. Three repetitions' noise of the sizes that show it leaves about 1 % in a
# fit that weighs all alike, and under 3 % in the worst of a run's networks.
TOLERANCE = {QUIET: 0.001, NOISY: 0.04, SHARED: 0.04}
# Of all noisy networks together, root mean square. Good fits have 0.8 % (at most 1 % in 60 runs); a
# fit that counts one end too much has 2.2 % (at least 1.7 %), and no one network may show it.
TOGETHER = 0.014
HALF = 1e-4  # relative, of half_size: whole bytes will do
# Relative: what is this near to a mistake's figures, on all networks of the kind, is that mistake
EXPLAINED = {QUIET: 2e-4, NOISY: 0.01, SHARED: 0.01}
ABOVE = 0.75  # of all sizes; a line through the quickest repetitions is above half of them
MISTAKES = {QUIET: OF_THE_MODEL, NOISY: OF_THE_FIT, SHARED: OF_THE_DISTURBED}
OTHERWISE = {QUIET: "model", NOISY: "noise", SHARED: "left_over"}  # hints for none of them


def inputs(seed: int, world_size: int) -> list[Any]:
    """For the only rank: each network's [sizes, seconds by size and repetition, ranks], and what
    `half_size` is called with, which is of other networks."""
    return [{"networks": [given(one) for one in networks(seed)], "half": half_cases(seed)}]


def given(network: Network) -> list[Any]:
    """What `fit_alpha_beta` is called with."""
    return [list(SIZES), [list(times) for times in network.seconds], network.ranks]


def drive(answer: ModuleType, inputs: dict[str, Any]) -> dict[str, Any]:
    """What the answer makes of each network; where half_size raises, the exception in words."""

    def asked(calls: list[Any], ask: Callable[..., Any]) -> Any:
        try:
            return [ask(*call) for call in calls]
        except ImportError:
            raise
        except Exception as error:  # what is not written yet costs its own claims' points only
            return {"raised": exception_in_words(error, answer)}

    return {
        "fitted": [answer.fit_alpha_beta(*one) for one in inputs["networks"]],
        "half": asked(inputs["half"], answer.half_size),
    }


def expect(inputs: list[Any], world_size: int) -> None:
    """None: judges draw the networks from the seed."""


def judge_half(run: Run) -> Problem | None:
    cases = half_cases(run.seed)
    told = returned(run, "half", "half_size", len(cases), "shape")
    if isinstance(told, Problem):
        return told
    for (alpha, beta, ranks), got in zip(cases, told, strict=True):
        of = f"half_size for {ranks} ranks, α {alpha:.4g} s and β {beta:.4g} s per byte"
        if not is_number(got):
            return Problem(f"{of}: it returned {described(got)}", "shape", "a number of bytes")
        right = ranks * alpha / beta
        if not abs(got - right) <= HALF * right:
            return Problem(f"{of}: {got:.6g} bytes", half_hint(cases, told), f"{right:.6g} bytes")
    return None


def half_hint(cases: Sequence[tuple[float, float, int]], told: Sequence[Any]) -> str:
    """The hint for the mistake that explains all of them."""

    def all_are(size: Any) -> bool:
        pairs = [(got, size(*case)) for got, case in zip(told, cases, strict=True)]
        return all(is_number(got) and _near(got, wrong, HALF) for got, wrong in pairs)

    if all_are(lambda alpha, beta, ranks: alpha / beta):
        return "half_of_a_message"
    return "half"


def judge(kind: str) -> Callable[[Run], Problem | None]:
    """The judge of the networks of one kind."""

    def judged(run: Run) -> Problem | None:
        told = returned(run, "fitted", "fit_alpha_beta", len(networks(run.seed)), "shape")
        if isinstance(told, Problem):
            return told
        for network, got in pairs(run, kind):
            if not is_pair(got):
                return Problem(f"{network.name}: {in_words(got)}", "shape", "two numbers, α and β")
        network, got = worst(run, kind)
        if error(network, got) <= TOLERANCE[kind]:
            return judge_together(run, kind) if kind == NOISY else None
        return Problem(
            f"{network.name}: α is {got[0]:.4g} s and β {got[1]:.4g} s per byte",
            hint(run, kind),
            f"{network.alpha:.4g} s and {network.beta:.4g} s per byte",
        )

    return judged


def judge_together(run: Run, kind: str) -> Problem | None:
    errors = [error(network, got) for network, got in pairs(run, kind)]
    of_all = math.sqrt(sum(one**2 for one in errors) / len(errors))
    if of_all <= TOGETHER:
        return None
    return Problem(
        f"each of the {len(errors)} {kind} networks is right to {TOLERANCE[kind]:.0%}; together "
        f"they are off by {of_all:.1%} (root mean square)",
        hint(run, kind),
        f"{TOGETHER:.1%}",
    )


def pairs(run: Run, kind: str) -> list[tuple[Network, Any]]:
    """The networks of this kind, each with what the answer returned for it."""
    both = zip(networks(run.seed), run.values[0]["fitted"], strict=True)
    return [(network, got) for network, got in both if network.kind == kind]


def worst(run: Run, kind: str) -> tuple[Network, Fitted]:
    return max(pairs(run, kind), key=lambda pair: error(*pair))


def is_pair(value: Any) -> bool:
    """Whether it is two finite numbers."""
    pair = isinstance(value, list | tuple) and len(value) == 2 and all(map(is_number, value))
    return pair and all(map(math.isfinite, value))


def in_words(value: Any) -> str:
    some = isinstance(value, list | tuple) and len(value) == 2
    what = " and ".join(map(described, value)) if some else described(value)
    return f"fit_alpha_beta returned {what}"


def error(network: Network, got: Fitted) -> float:
    """The larger of the relative errors of α and β."""
    return max(abs(got[0] / network.alpha - 1), abs(got[1] / network.beta - 1))


def hint(run: Run, kind: str) -> str:
    """The hint for the mistake that explains the answer's figures on all networks of this kind;
    where a simpler kind is wrong as well, the hint for that one."""
    for simpler in TOLERANCE:
        if simpler == kind:
            break
        usable = all(is_pair(got) for _, got in pairs(run, simpler))
        if usable and error(*worst(run, simpler)) > TOLERANCE[simpler]:
            return hint(run, simpler)
    found = pairs(run, kind)
    for key, mistake in MISTAKES[kind]:
        if all(explains(mistake(network), got, kind) for network, got in found):
            return key
    for key, mistake in OF_BETA if kind == QUIET else ():
        if all(_near(got[1], mistake(network)[1], EXPLAINED[kind]) for network, got in found):
            return key
    if any(not (alpha > 0 and beta > 0) for _, (alpha, beta) in found):
        return "negative"
    if kind == NOISY and share_below(found) > ABOVE:
        return "quickest"
    return OTHERWISE[kind]


def share_below(found: Sequence[tuple[Network, Fitted]]) -> float:
    """The part of the sizes whose quickest repetition is below the line."""
    below = [
        min(taken) < ring_seconds(nbytes, network.ranks, *got)
        for network, got in found
        for nbytes, taken in zip(SIZES, network.seconds, strict=True)
    ]
    return sum(below) / len(below)


def explains(wrong: Fitted, got: Fitted, kind: str) -> bool:
    return all(_near(value, of, EXPLAINED[kind]) for value, of in zip(got, wrong, strict=True))


def _near(value: float, other: float, within: float) -> bool:
    return abs(value - other) <= within * abs(other)


CHECK = Check(
    id="fit_alpha_beta",
    title="α and β from measurements",
    names=("fit_alpha_beta", "half_size"),
    to_write="the fit, and the size from which on bytes rule",
    allowed=ANYTHING,
    inputs=inputs,
    drive=drive,
    expect=expect,
    worlds=(1,),
    process_group=False,
    picture=fit_picture,
    claims=(
        Claim("on quiet networks: α of one message, β of one byte", 3, judge(QUIET)),
        Claim("half_size: there messages take as long as bytes", 2, judge_half),
        Claim("on noisy networks: small sizes count as much as large ones", 4, judge(NOISY)),
        Claim("on shared networks: disturbed sizes do not carry the fit", 4, judge(SHARED)),
    ),
    hints={
        "start": "One number for each size first: which of its repetitions? Then a line, constant "
        "plus slope times bytes. Constant and slope are those of a whole ring: how many messages, "
        "and how many bytes, does one rank send one after the other?",
        "unwritten": "This function is not written yet; what is written has been judged.",
        "shape": "fit_alpha_beta returns two plain numbers, (alpha, beta): seconds per message, "
        "seconds per byte. half_size returns one, in bytes.",
        "messages": "That is the constant of the whole all-reduce. A ring's messages follow one "
        "another, 2 (p-1) of them: α is for one.",
        "bytes": "That is the slope over the bytes of the tensor. A rank does not send n bytes but "
        "2 (p-1) messages of n/p: β is for one byte that it sends.",
        "parts": "That divides the slope by the number of messages, as if each had all n bytes. "
        "Each has n/p.",
        "one_way": "It is twice the planted one: only one way round the ring is counted. "
        "Reduce-scatter and all-gather take p-1 steps each.",
        "steps": "A ring has p-1 steps each way, not p: after p-1 of them a part has been "
        "everywhere.",
        "bits": "α and β are of bytes: networks are sold by the bit, and the factor is 8.",
        "units": "Seconds per message, seconds per byte: no micro- and no nanoseconds.",
        "bandwidth": "β is seconds per byte: the inverse of the bandwidth.",
        "order": "α first, then β.",
        "model": "On quiet networks the seconds are 2 (p-1) (α + n/p β) to five digits, so a line "
        "through them is exact. Put your α and β into the formula: at which sizes do the seconds "
        "come out wrong, and by which factor? Does it depend on the ranks?",
        "half_of_a_message": "α/β is for one message. In this all-reduce a message has n/p bytes: "
        "how large is the tensor then?",
        "half": "Of the two parts of 2 (p-1) (α + n/p β), which has no n? Set them equal, and "
        "solve for n.",
        "weights": "Least squares of seconds: the largest size takes seconds, and one percent of "
        "them is more than all that the small sizes take. So these do not count, and α is what is "
        "left over, negative even. The noise is relative: minimise relative errors, by dividing "
        "each size's row by its time.",
        "negative": "No network has an α or β of 0 or less. Where does it come from: which sizes "
        "does the line miss, by which factor?",
        "two_points": "The noise of two sizes goes into α and β as it is, and if one of them was "
        "disturbed, all is wrong. There are 49 sizes: let all of them take part.",
        "quickest": "The mean and the median of the repetitions have the delays in them. Whatever "
        "else runs only ever adds time: the quickest repetition has the least of it.",
        "noise": "With the quickest repetition of each size, your line should miss sizes by some "
        "percent, above and below, small and large alike. Look at its relative errors: are they "
        "larger at one end? Then that end counts too little.",
        "disturbed": "Right for noise. But a size that took three times as long pulls the line, "
        "and no averaging helps: find the sizes that are far above the line, leave them out or "
        "give them less weight, and fit again, until nothing changes.",
        "left_over": "Look at the relative errors of your last line: most sizes should be within "
        "some percent of it, and a few far above. Are there disturbed sizes that still pull? Were "
        "good ones thrown out? What is far is best measured by the spread of most of the errors "
        "(their median), and in several rounds: at first the line itself is wrong.",
        "raised": "Start from the exception: it names a line of your answer. `seconds[k]` is the "
        "list of the repetitions of `sizes[k]`.",
    },
)
