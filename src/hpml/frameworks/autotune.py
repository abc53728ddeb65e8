"""The values that Horovod's autotuner tries, from the log that it writes.

HOROVOD_AUTOTUNE and HOROVOD_AUTOTUNE_LOG: https://horovod.readthedocs.io/en/stable/autotune.html
"""

import tempfile
from functools import partial
from pathlib import Path

import torch

from hpml.ranks import launch

TENSORS, LENGTH = 50, 4_000  # float32: 16 kB each
COLUMNS = ("cycle_time_ms", "tensor_fusion_threshold", "score")


def tried(steps: int = 460) -> str:
    """A table of what is tried when two ranks average 50 tensors of 16 kB, over 1 Gbit/s.

    Cycle times are in ms, thresholds in MB, scores in bytes per microsecond. Takes 50 steps for
    each line, after 150 to warm up.
    """
    with tempfile.TemporaryDirectory(prefix="hpml-autotune-") as folder:
        log = Path(folder) / "log.csv"
        settings = {"HOROVOD_AUTOTUNE": "1", "HOROVOD_AUTOTUNE_LOG": str(log)}
        launch(
            partial(_average, steps),
            2,
            flavour="horovod",
            link="1gbit",
            environment=lambda rank: settings,
            timeout=300,
        )
        return table(log.read_text())


def table(log: str) -> str:
    """The last three columns of a log, as text."""
    rows = [line.split(",")[-len(COLUMNS) :] for line in log.splitlines()]
    return "\n".join("{:>14} {:>24} {:>8}".format(*row) for row in rows)


def _average(steps: int) -> None:
    """On a rank."""
    import horovod.torch as hvd

    gradients = [torch.ones(LENGTH) for _ in range(TENSORS)]
    for _ in range(steps):
        handles = [hvd.allreduce_async_(g, name=f"gradient {n}") for n, g in enumerate(gradients)]
        for handle in handles:
            hvd.synchronize(handle)
    hvd.shutdown()  # the log is written to its end
