"""Records `_recorded_steps.json.gz`: three steps of a small network under PyTorch's profiler.

    python -m hpml.modules.m03_profiling.checks._record_steps

Two ranks with DistributedDataParallel over an emulated link; rank 0's trace is kept, without what
no exercise asks for.
"""

import gzip
import json
from pathlib import Path
from typing import Any

from hpml.ranks import launch

TARGET = Path(__file__).with_name("_recorded_steps.json.gz")
LINK = "2gbit"
KEPT = ("ph", "cat", "name", "pid", "tid", "ts", "dur")


def train(_: None) -> str:
    """In a rank: train, and return its trace."""
    import torch
    from torch import nn
    from torch.nn.parallel import DistributedDataParallel
    from torch.profiler import ProfilerActivity, profile, record_function, schedule

    net = nn.Sequential(
        nn.Conv2d(3, 24, 3), nn.ReLU(), nn.Conv2d(24, 24, 3, stride=2), nn.Flatten(),
        nn.Linear(24 * 14 * 14, 64), nn.ReLU(), nn.Linear(64, 10),
    )  # fmt: skip
    model = DistributedDataParallel(net, bucket_cap_mb=0.1)
    optimizer = torch.optim.SGD(net.parameters(), 0.1, momentum=0.9)
    images = torch.utils.data.TensorDataset(torch.rand(8 * 64, 3, 32, 32))
    batches = iter(torch.utils.data.DataLoader(images, batch_size=64))
    target = torch.zeros(64, dtype=torch.long)
    with profile(
        activities=[ProfilerActivity.CPU],
        schedule=schedule(wait=2, warmup=2, active=3, repeat=1),
        on_trace_ready=lambda profiler: profiler.export_chrome_trace("trace.json"),
    ) as profiler:
        for _ in range(7):
            with record_function("loading"):
                (x,) = next(batches)
                with record_function("transforms"):
                    x = (x.flip(-1) - 0.5) / 0.25
            with record_function("forward"):
                loss = nn.functional.cross_entropy(model(x), target)
            with record_function("backward"):
                loss.backward()
            with record_function("optimizer"):
                optimizer.step()
                optimizer.zero_grad()
            loss.item()
            profiler.step()
    return Path("trace.json").read_text()


def smaller(trace: str) -> list[dict[str, Any]]:
    """The events, each with the fields of KEPT; of fetches one by one, none."""
    events = json.loads(trace)["traceEvents"]
    start = min(event["ts"] for event in events if event["ph"] == "X")
    kept = []
    for event in events:
        small = {key: event[key] for key in KEPT if key in event}
        if event["ph"] not in ("X", "i") or event["name"] in ("aten::select", "aten::as_strided"):
            continue
        kept.append(small | {"ts": round(event["ts"] - start, 3)})
    return kept


if __name__ == "__main__":
    evidence = launch(train, 2, inputs=[None, None], link=LINK)
    text = json.dumps(smaller(evidence.values[0]), separators=(",", ":"))
    TARGET.write_bytes(gzip.compress(text.encode(), 9, mtime=0))
    print(f"{TARGET.name}: {TARGET.stat().st_size} bytes")
