"""What an answer's ranks printed, cut to what a person reads: some lines of each rank.

It is the answer's own text, and may be hostile to what shows it: every line is made safe
(`hpml.files.sanitize`) and cut here, before it is kept. A page escapes it besides.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence

from hpml.checks.contract import Stage
from hpml.files.sanitize import cut, plain, short
from hpml.ranks.evidence import Evidence, RankEvidence

FIRST, LAST = 15, 5  # lines of each rank
COLUMNS = 160  # characters of a line
RANKS = 16
# What PyTorch's C++ logs by itself: "[rank0]:[W1123 15:25:03.949 CPUAllocator.cpp:245] Memory …"
_LOGGED = re.compile(r"(\[rank\d+\]:)?\s*\[[IW]\d{4} \d\d:\d\d:\d\d\.\d+ \S+:\d+\] ")
# What a library tells its maintainers, such as that a name of its own is an old one
_OUTDATED = re.compile(r"/\S*/(site|dist)-packages/\S+: (Future|(Pending)?Deprecation)Warning: ")
_INSTALLED = re.compile(r"^/\S*/(site|dist)-packages/")  # where a library is, in its warnings
LONGEST = 12_000  # characters in all


def printed(stages: Mapping[str, Evidence], of_check: Sequence[Stage] = ()) -> str:
    """What ranks printed in one play, each line with its ranks in front, as `%%ranks` has it:
    "[0] loss 2.3", "[0-3] hello" where these ranks printed the same. Empty where none did.

    `stages` are the play's launches by name. Those without the answer, by `of_check`, are left out.
    Of each rank the first and last lines are shown, with how many are left out between; and none
    that PyTorch itself logs about what it does, or a library about its own older names.
    """
    without = {stage.name for stage in of_check if not stage.with_answer}
    texts = {
        name: lines
        for name, evidence in stages.items()
        if name not in without and (lines := _marked(evidence))
    }
    parts = []
    for name, lines in texts.items():
        ranks = stages[name].world_size
        parts += [f"{name}, {ranks} rank{'s' * (ranks > 1)}:"] if len(of_check) > 1 else []
        parts += lines
    return cut("\n".join(parts), LONGEST)


def _marked(evidence: Evidence) -> list[str]:
    same: list[tuple[list[int], list[str]]] = []  # neighbours that printed the same, and what
    for rank in evidence.ranks[:RANKS]:
        lines = _lines(rank)
        if same and same[-1][1] == lines:
            same[-1][0].append(rank.rank)
        else:
            same.append(([rank.rank], lines))
    marked = []
    for ranks, lines in same:
        who = f"[{ranks[0]}]" if len(ranks) == 1 else f"[{ranks[0]}-{ranks[-1]}]"
        marked += [f"{who} {line}".rstrip() for line in lines]
    if marked and len(evidence.ranks) > RANKS:
        marked.append(f"… ranks {RANKS} to {len(evidence.ranks) - 1} are left out")
    return marked


def _lines(rank: RankEvidence) -> list[str]:
    lines = rank.stdout.rstrip().split("\n") if rank.stdout.strip() else []
    lines = [*_own(lines)]
    left_out = len(lines) - FIRST - LAST
    if rank.stdout_cut:  # its end is not known
        return [*_shown(lines[: FIRST + LAST]), "… and so on: more than is kept of a rank's output"]
    if left_out <= 1:
        return _shown(lines)
    between = f"… {left_out} lines are left out here …"
    return [*_shown(lines[:FIRST]), between, *_shown(lines[-LAST:])]


def _own(lines: Iterable[str]) -> Iterator[str]:
    """Without what libraries say by themselves; a warning comes with its line of source."""
    of_warning = False
    for line in lines:
        begin = line[: 4 * COLUMNS]
        if of_warning and begin.startswith("  "):
            of_warning = False
            continue
        of_warning = bool(_OUTDATED.match(begin))
        if not of_warning and not _LOGGED.match(begin):
            yield line


def _shown(lines: Iterable[str]) -> list[str]:
    """Lines made safe. A progress bar redraws its line: of that the last state is shown."""
    states = (line.rstrip("\r").rpartition("\r")[2][: 4 * COLUMNS] for line in lines)
    states = (_INSTALLED.sub("", state) for state in states)
    # A safe line has no break left, so that no line can pretend to be another rank's.
    return [short(plain(state, keep="\t"), COLUMNS).rstrip() for state in states]
