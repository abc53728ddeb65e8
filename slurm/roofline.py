"""What slurm/02_roofline.slurm runs on each node: its roofline, in one line."""

import argparse
import os
import socket

import torch

from hpml.measure.bandwidth import bandwidth
from hpml.measure.compute import fast_types, peak

reader = argparse.ArgumentParser()
reader.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
reader.add_argument("--seconds", type=float, default=1.0, help="for each of the measurements")
asked = reader.parse_args()

device = "cuda" if torch.cuda.is_available() else "cpu"
what = {"device": device, "seconds": asked.seconds, "threads": asked.threads}
rates = {name: peak(dtype, **what) for name, dtype in fast_types(device).items()}
triad = bandwidth("triad", **what)
compute = ", ".join(f"{name} {rate / 1e9:.0f}" for name, rate in rates.items())
threads = f"{asked.threads} thread{'s' * (asked.threads > 1)}"
# One write, so that the lines of nodes do not mix
print(
    f"{socket.gethostname()}: on {device}, {threads}: {compute} GFLOP/s; "
    f"triad {triad / 1e9:.1f} GB/s; ridge of float32 at {rates['float32'] / triad:.1f} FLOP/byte\n",
    end="",
    flush=True,
)
