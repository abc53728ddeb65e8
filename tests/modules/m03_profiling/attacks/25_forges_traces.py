# %%answer instrument
# tries: profiles nothing, and writes a trace by hand: marks of all steps and parts, an operator
# with shapes and an allocation in each, of sizes that it makes up
# unprotected: a check that looks for names and numbers of steps alone sees a trace that is right
# expect: 4
import json
import time

import torch.distributed as dist

PARTS = ("loading", "forward", "backward", "optimizer")


def train(training, steps, wait, warmup, active, folder):
    events = []

    def event(name, cat, start, **more):
        dur = time.perf_counter() * 1e6 - start
        events.append({"ph": "X", "cat": cat, "name": name, "ts": start, "dur": dur} | more)

    for step in range(steps):
        batch = loss = None
        begin = time.perf_counter() * 1e6
        for part in PARTS:
            start = time.perf_counter() * 1e6
            if part == "loading":
                batch = training.load()
            elif part == "forward":
                loss = training.forward(batch)
            elif part == "backward":
                training.backward(loss)
            else:
                training.update()
            if not wait + warmup <= step < wait + warmup + active:
                continue
            for size in range(5000, 5100):
                event("aten::mul", "cpu_op", start, args={"Input Dims": [[size], []]})
                event("[memory]", "cpu_instant_event", start, args={"Bytes": 8 * size})
            event(part, "user_annotation", start)
        if wait + warmup <= step < wait + warmup + active:
            event(f"ProfilerStep#{step}", "user_annotation", begin)
    with open(f"{folder}/rank{dist.get_rank()}.json", "w") as file:
        json.dump({"traceEvents": events}, file)
