# %%answer instrument
# tries: leaves pipes and links under the names of traces, of which reading has no end
# unprotected: a check that opens the first file waits for a writer, and reads zeros until
# memory is full
# expect: 1
import os

import torch.distributed as dist


def train(training, steps, wait, warmup, active, folder):
    rank = dist.get_rank()
    os.mkfifo(f"{folder}/a_rank{rank}.json")
    os.symlink("/dev/zero", f"{folder}/b_rank{rank}.json")
    with open(f"{folder}/c_rank{rank}.json", "wb") as file:
        file.write(b'{"traceEvents": [' + b"[" * 2**20)
    for _ in range(steps):
        training.backward(training.forward(training.load()))
        training.update()
