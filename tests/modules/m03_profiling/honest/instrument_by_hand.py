# %%answer instrument
# unusual: a schedule of its own, started and stopped by hand; the trace is written after the loop
import contextlib
import os
from pathlib import Path

from torch.profiler import ProfilerAction, profile, record_function


def train(training, steps, wait, warmup, active, folder):
    def action(step):
        if step < wait or step >= wait + warmup + active:
            return ProfilerAction.NONE
        if step < wait + warmup:
            return ProfilerAction.WARMUP
        last = step == wait + warmup + active - 1
        return ProfilerAction.RECORD_AND_SAVE if last else ProfilerAction.RECORD

    path = Path(folder, f"node_{os.uname().nodename}_rank{os.environ['RANK']}.pt.trace.json")
    prof = profile(schedule=action, record_shapes=True, profile_memory=True)
    prof.start()
    for step in range(steps):
        recorded = action(step) in (ProfilerAction.RECORD, ProfilerAction.RECORD_AND_SAVE)
        mark = record_function if recorded else contextlib.nullcontext
        with mark("loading"):
            batch = training.load()
        with mark("forward"), record_function("the network"):
            loss = training.forward(batch)
        with mark("backward"):
            training.backward(loss)
        with mark("optimizer"):
            training.update()
        prof.step()
    prof.stop()
    prof.export_chrome_trace(str(path))
