# %%answer step_breakdown
# unusual: numpy, an array with a place for each tenth of a microsecond, painted part by part
import numpy as np

PARTS = ["loading", "transforms", "forward", "backward", "optimizer", "communication", "other"]
TENTHS = 10


def breakdown(events):
    complete = [e for e in events if e.get("ph") == "X"]
    steps = {}
    for e in complete:
        head, _, number = e["name"].partition("#")
        if head == "ProfilerStep":
            steps[int(number)] = e
    return [paint(steps[number], complete) for number in sorted(steps)]


def paint(step, events):
    origin, size = step["ts"], round(TENTHS * step["dur"])
    owner = np.full(size, PARTS.index("other"), np.int8)
    messages, busy = np.zeros(size, bool), np.zeros(size, bool)

    def places(e):
        first = round(TENTHS * (e["ts"] - origin))
        last = round(TENTHS * (e["ts"] + e["dur"] - origin))
        return slice(max(first, 0), max(min(last, size), 0))

    for e in sorted(events, key=lambda e: (e["ts"], -e["dur"])):
        name, place = e["name"], places(e)
        if name.startswith("enumerate(DataLoader)#"):
            name = "loading"
        elif name.startswith("Optimizer."):
            name = "optimizer"
        if name in PARTS[:5] and e["tid"] == step["tid"]:
            owner[place] = PARTS.index(name)
        messages[place] |= name.startswith(("gloo:", "nccl:"))
        busy[place] |= name.startswith("aten::")
    owner[messages & ~busy & (owner > 1)] = PARTS.index("communication")
    counted = np.bincount(owner, minlength=len(PARTS)) / (1000 * TENTHS)
    return dict(zip(PARTS, counted, strict=True))
