# %%answer instrument
# unusual: a profiler without a schedule's help from PyTorch's names, an exit stack, and a handler
# that writes elsewhere first and moves the file
import os
import shutil
import tempfile
from contextlib import ExitStack

import torch.distributed as dist
from torch import profiler as tp

PARTS = ("loading", "forward", "backward", "optimizer")


class Handler:
    def __init__(self, folder):
        self.target = os.path.join(folder, f"trace-of-rank{dist.get_rank()}.json.gz")

    def __call__(self, prof):
        with tempfile.TemporaryDirectory() as elsewhere:
            path = os.path.join(elsewhere, "trace.json.gz")
            prof.export_chrome_trace(path)
            shutil.move(path, self.target)
        print(prof.key_averages().table(row_limit=3))


def train(training, steps, wait, warmup, active, folder):
    with ExitStack() as stack:
        prof = stack.enter_context(
            tp.profile(
                schedule=tp.schedule(
                    skip_first=wait, wait=0, warmup=warmup, active=active, repeat=1
                ),
                on_trace_ready=Handler(folder),
                record_shapes=True,
                profile_memory=True,
            )
        )
        calls = (
            lambda _: training.load(),
            training.forward,
            training.backward,
            lambda _: training.update(),
        )
        value = None
        for _ in range(steps):
            for name, call in zip(PARTS, calls, strict=True):
                with tp.record_function(name):
                    value = call(value)
            prof.step()
