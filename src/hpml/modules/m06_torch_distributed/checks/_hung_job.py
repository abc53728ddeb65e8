"""A training script that hangs as it is asked to: what `_record_hung_jobs.py` starts by torchrun.

It uses nothing of this package, and is called train.py where it runs. `--why` is the reason why
rank `--culprit` does not come to the collective `--call` of the last step, in which others wait.
"""

import argparse
import json
import os
import queue
import threading
import time
import traceback
from datetime import timedelta

import torch
import torch.distributed as dist
from torch._C import _distributed_c10d as c10d
from torch.utils.data import DataLoader, Dataset

LAST = 3  # the step that hangs
LONG = 600.0  # seconds; the job is ended from outside before that


class Images(Dataset):
    def __len__(self):
        return 4

    def __getitem__(self, number):
        time.sleep(LONG)


def load(why):
    if why == "file":
        time.sleep(LONG)  # as a file system that does not answer
    if why == "loader":
        next(iter(DataLoader(Images(), num_workers=1)))
    if why == "raises":
        raise ValueError("image 4711 is truncated")
    return torch.ones(8)


def compute(images, why):
    while why == "computes":
        images = torch.randn(512, 512) @ torch.randn(512, 512)
    return images.sum().reshape(1)


def average(tensor, call, later):
    world_size = dist.get_world_size()
    if call == "all_reduce":
        work = dist.all_reduce(tensor, async_op=later)
    elif call == "all_gather":
        gathered = [torch.zeros(1) for _ in range(world_size)]
        work = dist.all_gather(gathered, tensor, async_op=later)
    elif call == "all_to_all_single":
        received = torch.zeros(world_size)
        work = dist.all_to_all_single(received, torch.ones(world_size), async_op=later)
    elif call == "barrier":
        work = dist.barrier(async_op=later)
    elif call == "monitored_barrier":
        dist.monitored_barrier(timeout=timedelta(seconds=20))
    if later:
        work.wait()


def save(losses):
    while True:
        losses.get()


def train(options):
    losses = queue.Queue()
    # If it is not a daemon, a process whose main thread has raised does not end
    daemon = options.why != "raises"
    threading.Thread(target=save, args=(losses,), name="writer", daemon=daemon).start()
    node = dist.new_group([2, 3], group_desc="node")
    try:
        json.loads("{")
    except json.JSONDecodeError:
        traceback.print_exc()  # an error that was handled: it has nothing to do with the hang
    for step in range(LAST + 1):
        late = step == LAST and dist.get_rank() == options.culprit
        why = options.why if late else ""
        loss = compute(load(why), why)
        if step < LAST and dist.get_rank() in (2, 3):
            dist.all_reduce(loss, group=node)
        if why == "elsewhere":
            dist.all_gather([torch.zeros(1) for _ in range(dist.get_world_size())], loss)
        average(loss, options.call, options.later)
        losses.put(step)
        print("step", step, flush=True)


def write_flight_recorder(folder):
    """As the watchdog of NCCL does at a timeout: here as soon as there is a file `now`."""
    while not os.path.exists(os.path.join(folder, "now")):
        time.sleep(0.1)
    trace = c10d._dump_fr_trace(True, True, False)  # type: ignore[attr-defined]  # without types
    unfinished = os.path.join(folder, f"unfinished{dist.get_rank()}")
    with open(unfinished, "wb") as file:
        file.write(trace)
    os.replace(unfinished, os.path.join(folder, f"trace{dist.get_rank()}"))


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--call", required=True)
    parser.add_argument("--why", required=True)
    parser.add_argument("--culprit", type=int, required=True)
    parser.add_argument("--later", action="store_true")
    parser.add_argument("--recorder", default="")
    options = parser.parse_args()
    dist.init_process_group("gloo", timeout=timedelta(seconds=120))
    if options.recorder:
        threading.Thread(
            target=write_flight_recorder, args=(options.recorder,), name="recorder", daemon=True
        ).start()
    train(options)
