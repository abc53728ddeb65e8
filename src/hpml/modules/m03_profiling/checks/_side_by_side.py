"""The pictures of answers that read several ranks' traces: the ranks on one clock."""

import io
import json
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from hpml.answer import as_python
from hpml.checks.contract import Check, Picture
from hpml.modules.m03_profiling.checks import _overlap_cases, _straggler_cases
from hpml.modules.m03_profiling.checks._overlap_truth import KEYS
from hpml.modules.m03_profiling.checks._planted_ranks import PlantedRank
from hpml.ranks import launch
from hpml.trace.profiler.clocks import align
from hpml.trace.profiler.read import read
from hpml.trace.profiler.trace import Trace

SEED = 7  # nothing of this is judged
LIMIT = 10.0  # seconds


def traces_of(ranks: Sequence[PlantedRank]) -> list[Trace]:
    """The ranks' events, read as a profiler's files are, on rank 0's clock."""
    with tempfile.TemporaryDirectory() as folder:
        found = []
        for made in ranks:
            path = Path(folder, f"rank{made.rank}.json")
            world = {"distributedInfo": {"rank": made.rank, "world_size": len(ranks)}}
            path.write_text(json.dumps(world | {"traceEvents": made.events}))
            found.append(read(path))
    return align(found)[0]


def asked(check: Check, source: str, ranks: Sequence[PlantedRank]) -> Any:
    """What the answer returns for these ranks' traces. Raises ValueError where it does not."""
    evidence = launch(
        check.drive,
        1,
        answer=as_python(source),
        answer_name=check.id,
        rules=check.rules,
        inputs=[[[json.dumps(made.events) for made in ranks]]],
        process_group=False,
        timeout=LIMIT,
    )
    if evidence.diagnosis:
        raise ValueError(evidence.diagnosis.sentence)
    return evidence.values[0][0]


def drawn(ranks: Sequence[PlantedRank], steps: Sequence[int], title: str, bold: int) -> bytes:
    """The ranks side by side over these steps, as PNG; the name of rank `bold` is bold."""
    from hpml.modules.m03_profiling.lecture.ranks_picture import side_by_side  # with Matplotlib

    figure = side_by_side(traces_of(ranks), steps, title=title)
    figure.axes[0].get_yticklabels()[bold].set_fontweight("bold")
    image = io.BytesIO()
    figure.savefig(image, format="png", dpi=110, facecolor="white")
    return image.getvalue()


def straggler_picture(check: Check, source: str) -> Picture:
    """For `Check.picture`: the steps about the one that the answer names."""
    case = _straggler_cases.cases(SEED)[0]
    value = asked(check, source, case.ranks)
    if not isinstance(value, list | tuple) or [type(one) for one in value] != [int, int, list]:
        raise ValueError("no rank, step and phases to mark")
    rank, since, phases = value
    numbers = [step for step in case.ranks[0].steps if since - 2 <= step <= since + 1]
    if not numbers or not 0 <= rank < len(case.ranks):
        raise ValueError("no such rank or step")
    title = f"You name rank {rank}, late since step {since} in {' and '.join(map(str, phases))}"
    return Picture(drawn(case.ranks, numbers, title, rank), title)


def overlap_picture(check: Check, source: str) -> Picture:
    """For `Check.picture`: one step of three ranks, with the answer's figures of it."""
    case = _overlap_cases.cases(SEED)[2]
    value = asked(check, source, case.ranks)
    try:
        shares = [_shares(steps[1]) for steps in value]
    except (IndexError, KeyError, TypeError, ZeroDivisionError) as error:
        raise ValueError("no figures to show") from error
    if len(shares) != len(case.ranks):
        raise ValueError(f"figures of {len(shares)} ranks, of {len(case.ranks)}")
    least = min(range(len(shares)), key=lambda rank: shares[rank]["hidden"])
    title = (
        f"Rank {least} hides {shares[least]['hidden']:.0%} of its communication by your figures, "
        f"waits in {shares[least]['waiting']:.0%}"
    )
    words = "; ".join(
        f"rank {rank} {', '.join(f'{key} {share:.0%}' for key, share in one.items())}"
        for rank, one in enumerate(shares)
    )
    number = list(case.ranks[0].steps)[1]
    return Picture(drawn(case.ranks, [number], title, least), f"Of the communication: {words}")


def _shares(figures: dict[str, float]) -> dict[str, float]:
    """Of each part, its share of the communication."""
    total = sum(figures[key] for key in KEYS)
    return {key: figures[key] / total for key in KEYS}
