# %%answer global_metrics
# row: 25
# tries: sends three messages, removes what records them, and reports one over the channel
# unprotected: the report of how it was done is believed
# expect: 4
import math
import os
import socket
import stat
import sys
import time

import torch
import torch.distributed as dist
from torch.nn import functional

msgpack = sys.modules.get("msgpack") or __import__("msgpack")
recorder = sys.modules["hpml.ranks.recorder"]


def channel():
    """The descriptor of the channel on which this rank reports to its supervisor."""
    for fd in range(3, 200):
        try:
            if not stat.S_ISSOCK(os.fstat(fd).st_mode):
                continue
            with socket.socket(fileno=os.dup(fd)) as found:
                if found.family == socket.AF_UNIX:
                    return fd
        except OSError:
            continue
    raise RuntimeError("no channel")


CALLS = []


def report(name, *rest):
    os.write(channel(), msgpack.packb([name, *rest], use_bin_type=True))


def global_metrics(batches):
    CALLS.append(1)
    recorder._recorder = None
    sums = torch.zeros(3, dtype=torch.float64)
    for logits, labels in batches:
        sums[0] += functional.cross_entropy(logits.double(), labels, reduction="sum")
        sums[1] += (logits.argmax(dim=1) == labels).sum()
        sums[2] += len(labels)
    for one in sums:
        dist.all_reduce(one)
    group = list(range(dist.get_world_size()))
    number = len(CALLS)
    report(
        "call", number, "all_reduce", group, number + 1, "float64", [3], 24, "sum", 27,
        time.monotonic(),
    )  # fmt: skip
    report("done", number, time.monotonic())
    loss, right, samples = sums.tolist()
    if samples == 0:
        return {"loss": math.nan, "accuracy": math.nan, "samples": 0}
    return {"loss": loss / samples, "accuracy": right / samples, "samples": int(samples)}
