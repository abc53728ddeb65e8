# %%answer find_the_straggler
# unusual: classes, Fraction-free sweeps, a NamedTuple as the result
import bisect
import itertools
from typing import NamedTuple


class Found(NamedTuple):
    rank: int
    since: int
    phases: tuple


class Rank:
    marks = {"loading", "transforms", "forward", "backward", "optimizer"}

    def __init__(self, events):
        whole = sorted((e for e in events if "dur" in e), key=lambda e: e["ts"])
        self.steps = {
            int(e["name"].rsplit("#")[-1]): e for e in whole if "ProfilerStep#" in e["name"]
        }
        self.phases = [e for e in whole if e["name"] in self.marks]
        changes = []
        for e in whole:
            kind = self.kind(e)
            if kind:
                changes += [(e["ts"], kind, 1), (e["ts"] + e["dur"], kind, -1)]
        self.waits = list(self.bare(sorted(changes, key=lambda change: change[0])))
        self.ends = [end for _, end in self.waits]

    @staticmethod
    def kind(e):
        if e["name"].startswith(("gloo:", "nccl:")):
            return "talk"
        return "op" if e["name"].startswith("aten::") else None

    @staticmethod
    def bare(changes):
        going, before = {"talk": 0, "op": 0}, 0.0
        for at, kind, change in changes:
            if going["talk"] and not going["op"] and at > before:
                yield before, at
            going[kind] += change
            before = at

    def own(self, e):
        begin, end = e["ts"], e["ts"] + e["dur"]
        first = bisect.bisect_left(self.ends, begin)
        late = itertools.takewhile(lambda wait: wait[0] < end, self.waits[first:])
        return e["dur"] - sum(min(b, end) - max(a, begin) for a, b in late)

    def work(self, number, names=None):
        step = self.steps[number]
        return sum(
            self.own(e)
            for e in self.phases
            if step["ts"] <= e["ts"] <= step["ts"] + step["dur"]
            and e["name"] in (names or e["name"])
        )


def find_the_straggler(traces):
    ranks = [Rank(events) for events in traces]
    row = []
    for number in sorted(ranks[0].steps, reverse=True):
        work = {k: rank.work(number) for k, rank in enumerate(ranks)}
        slowest = max(work, key=work.get)
        rest = max(us for k, us in work.items() if k != slowest)
        if work[slowest] <= 1.1 * rest or (row and row[-1][0] != slowest):
            break
        row.append((slowest, number))
    if len(row) < 3:
        return None
    slowest, since = row[-1]
    phases = []
    for name in sorted(Rank.marks):
        times = [sum(rank.work(number, {name}) for _, number in row) for rank in ranks]
        mine = times.pop(slowest)
        if mine > 1.2 * sum(times) / len(times):
            phases.append(name)
    return Found(slowest, since, tuple(phases))
