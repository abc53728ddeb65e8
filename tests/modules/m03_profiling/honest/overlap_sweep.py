# %%answer overlap
# unusual: one sweep over begins and ends, with counters; a Counter of states; Fraction as a number
from collections import Counter


def overlap(traces):
    shortest = {}
    for events in traces:
        for k, event in enumerate(collectives(events)):
            shortest[k] = min(shortest.get(k, event["dur"]), event["dur"])
    return [list(parts(events, shortest)) for events in traces]


def collectives(events):
    return sorted((e for e in events if e["name"][:5] in ("gloo:", "nccl:")), key=lambda e: e["ts"])


def parts(events, shortest):
    changes = []
    for k, event in enumerate(collectives(events)):
        end = event["ts"] + event["dur"]
        changes += [(event["ts"], "comm", 1), (end, "comm", -1)]
        changes += [(end - shortest[k], "move", 1), (end, "move", -1)]
    for event in events:
        if event["name"].startswith("aten::"):
            changes += [(event["ts"], "work", 1), (event["ts"] + event["dur"], "work", -1)]
        if event["name"].startswith("ProfilerStep#"):
            number = int(event["name"].split("#")[1])
            changes += [(event["ts"], number, 1), (event["ts"] + event["dur"], number, -1)]
    changes.sort(key=lambda change: change[0])
    now, seconds, before = Counter(), Counter(), 0.0
    steps = sorted({what for _, what, _ in changes if isinstance(what, int)})
    for at, what, change in changes:
        if now["comm"] > 0:
            state = "hidden" if now["work"] else "exposed" if now["move"] else "waiting"
            for step in steps:
                if now[step]:
                    seconds[step, state] += (at - before) / 1e6
        now[what] += change
        before = at
    for step in steps:
        yield {state: seconds[step, state] for state in ("hidden", "waiting", "exposed")}
