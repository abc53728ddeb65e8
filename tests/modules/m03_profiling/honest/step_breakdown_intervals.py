# %%answer step_breakdown
# unusual: sets of intervals that are joined, cut and taken from each other, in classes and fractions
from dataclasses import dataclass
from fractions import Fraction
from functools import reduce


@dataclass(frozen=True)
class Set:
    spans: tuple = ()

    @classmethod
    def of(cls, events):
        spans = []
        for begin, end in sorted(
            (exact(e["ts"]), exact(e["ts"]) + exact(e["dur"])) for e in events
        ):
            if spans and begin <= spans[-1][1]:
                spans[-1] = (spans[-1][0], max(end, spans[-1][1]))
            elif begin < end:
                spans.append((begin, end))
        return cls(tuple(spans))

    def __and__(self, other):
        both = [
            (max(a, c), min(b, d))
            for a, b in self.spans
            for c, d in other.spans
            if max(a, c) < min(b, d)
        ]
        return Set(tuple(sorted(both)))

    def __sub__(self, other):
        left = list(self.spans)
        for c, d in other.spans:
            left = [
                piece
                for a, b in left
                for piece in ((a, min(b, c)), (max(a, d), b))
                if piece[0] < piece[1]
            ]
        return Set(tuple(left))

    @property
    def milliseconds(self):
        return float(sum(end - begin for begin, end in self.spans) / 1000)


def exact(number):
    return Fraction(round(number * 1000), 1000)


def breakdown(events):
    events = [event for event in events if event["ph"] == "X"]
    steps = [event for event in events if event["name"].startswith("ProfilerStep#")]
    return [parts(step, events) for step in sorted(steps, key=lambda step: step["ts"])]


def parts(step, events):
    def named(*beginnings, main=False):
        return [
            event
            for event in events
            if event["name"].startswith(beginnings) and (not main or event["tid"] == step["tid"])
        ]

    def marked(name, *beginnings):
        exactly = [event for event in named(name, main=True) if event["name"] == name]
        return Set.of(exactly + (named(*beginnings, main=True) if beginnings else []))

    whole = Set.of([step])
    marks = {
        "transforms": marked("transforms"),
        "loading": marked("loading", "enumerate(DataLoader)#"),
        "forward": marked("forward"),
        "backward": marked("backward"),
        "optimizer": marked("optimizer", "Optimizer."),
    }
    near = [e for e in named("aten::") if overlaps(e, step)]
    sent = [e for e in named("gloo:", "nccl:") if overlaps(e, step)]
    busy = [Set.of(near), marks["loading"], marks["transforms"]]
    exposed = (whole & Set.of(sent)) - busy[0] - busy[1] - busy[2]
    found = {"communication": exposed.milliseconds}
    left = whole - exposed
    for name, own in marks.items():
        found[name] = (left & own).milliseconds
        left = left - own
    return found | {"other": left.milliseconds}


def overlaps(event, step):
    return event["ts"] < step["ts"] + step["dur"] and event["ts"] + event["dur"] > step["ts"]


assert reduce(Set.__sub__, [Set(((0, 2),)), Set(((1, 2),))]).spans == ((0, 1),)
