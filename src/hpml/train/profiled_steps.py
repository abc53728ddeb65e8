"""A few steps of a run under torch.profiler, left beside its TensorBoard events."""

import json
import os
import shutil
import tempfile
from pathlib import Path

import torch
from torch.profiler import ProfilerActivity, profile, schedule

from hpml.files import atomic
from hpml.train.observer import Observer

# The first steps choose kernels, grow memory and, with DDP, put gradients into other buckets. The
# profiler's own first step is slow, too: it records that one and throws it away.
WAIT, WARM_UP, ACTIVE = 2, 1, 3
STEPS = WAIT + WARM_UP + ACTIVE


class ProfiledSteps(Observer):
    """The fourth, fifth and sixth step of this process, with shapes and memory.

    The trace is `folder`/rank3.pt.trace.json.gz, as TensorBoard's PyTorch plugin looks for it. It
    is written to this node's own disk (SLURM_TMPDIR, else TMPDIR), and goes to `folder` when the
    run is over: nobody finds half a file there, and no step waits for a shared file system.
    """

    def __init__(self, folder: str | os.PathLike[str], rank: int, world_size: int, cuda: bool):
        self.folder, self.name = Path(folder), f"rank{rank}.pt.trace.json.gz"
        self.scratch: Path | None = None
        self.steps = 0
        activities = [ProfilerActivity.CPU] + [ProfilerActivity.CUDA] * cuda
        self.profiler = profile(
            activities=activities,
            schedule=schedule(wait=WAIT, warmup=WARM_UP, active=ACTIVE, repeat=1),
            on_trace_ready=self._write,
            record_shapes=True,
            profile_memory=True,
        )
        self.ranks = {"backend": "horovod", "rank": rank, "world_size": world_size}
        self.profiler.start()

    def step(self, images: int) -> None:
        self.steps += 1
        if self.steps <= STEPS:
            self.profiler.step()
        begins = self.steps == WAIT + WARM_UP
        if begins and self.ranks["world_size"] > 1 and not torch.distributed.is_initialized():
            # Under Horovod nobody else does; the plugin and hpml.trace read it. It is forgotten
            # where nothing is being recorded yet.
            self.profiler.add_metadata_json("distributedInfo", json.dumps(self.ranks))

    def _write(self, profiler: profile) -> None:
        place = os.environ.get("SLURM_TMPDIR") or tempfile.gettempdir()
        self.scratch = Path(tempfile.mkdtemp(prefix="hpml-profile-", dir=place))
        profiler.export_chrome_trace(str(self.scratch / self.name))

    def close(self) -> None:
        self.profiler.stop()  # a run that ended early leaves the steps that it had
        if self.scratch is None:
            return
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            with (
                open(self.scratch / self.name, "rb") as written,
                atomic.replacing(self.folder / self.name) as file,
            ):
                shutil.copyfileobj(written, file)
        finally:
            shutil.rmtree(self.scratch, ignore_errors=True)
