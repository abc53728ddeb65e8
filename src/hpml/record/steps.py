"""Ten steps of a loop as people write their first one, and of a good one: two traces, and copies.

Both train the course's network on the same images. The first waits for the device in every step
and computes in float32; the second waits for nothing, copies ahead, and computes in bfloat16 (but
in float32 on a processor that is slow in it).
"""

import gzip
import json
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.profiler import ProfilerActivity, profile, record_function

from hpml.measure import bf16_kernels
from hpml.models import ResidualNetwork
from hpml.record.kept import LARGEST, Place

STEPS, WARM_UP, ROUNDS = 10, 5, 5
BATCH = {"cuda": 512, "cpu": 16}
COPIED = 64 * 2**20  # bytes from host to device, for their rate
NOT_SHOWN = ("host_name", "trace_id", "traceName", "Ev Idx", "Record function id")
Step = Callable[[int], None]


def measure(place: Place) -> dict[str, Any]:
    """By loop, "bad" and "good": seconds of a step without a profiler, in each of some rounds, and
    the trace's file; and byte/s from the host's memory to the device, pinned and not.
    """
    found: dict[str, Any] = {"batch_size": BATCH[place.device], "loops": {}}
    for name, make in (("bad", bad), ("good", good)):
        step = make(place.device)
        for number in range(WARM_UP):
            step(number)
        seconds = [_timed(step, place.device) for _ in range(ROUNDS)]
        trace = _profiled(step, place, name)
        found["loops"][name] = {"seconds": seconds, "trace": trace}
        print(f"    {name}: {1e3 * float(np.median(seconds)):.1f} ms a step", flush=True)
    found["host_to_device"] = _copies() if place.gpu else {}
    return found


def bad(device: str) -> Step:
    """Images one by one from pageable memory, the loss read after every step, float32."""
    network, optimizer = _network(device, fused=False)
    images, labels = _images(device)
    shown: list[float] = []

    def step(number: int) -> None:
        with record_function("loading"):
            batch = torch.stack([image.float() for image in images])
            batch, target = batch.div(255).to(device), labels.to(device)
        with record_function("forward"):
            loss = F.cross_entropy(network(batch), target)
            shown.append(loss.item())  # waits for the device
        with record_function("backward"):
            optimizer.zero_grad(set_to_none=False)
            loss.backward()
        with record_function("optimizer"):
            optimizer.step()
            norm = sum(float(p.grad.norm()) for p in network.parameters() if p.grad is not None)
        shown.append(norm)  # and for each parameter once more

    return step


def good(device: str) -> Step:
    """Whole batches from pinned memory, one ahead; bfloat16 by autocast; nothing read on the way.

    What is counted stays on the device.
    """
    network, optimizer = _network(device, fused=True)
    network.to(memory_format=torch.channels_last)
    images, labels = _images(device)
    if device == "cuda":
        images, labels = images.pin_memory(), labels.pin_memory()
    stream = torch.cuda.Stream() if device == "cuda" else None
    total = torch.zeros((), device=device)
    in_bf16 = device == "cuda" or not bf16_kernels.missing()

    def load() -> tuple[Tensor, Tensor]:
        if stream is None:
            return images.float().div_(255), labels
        with torch.cuda.stream(stream):  # while the step before still computes
            batch = images.to(device, non_blocking=True).float().div_(255)
            return batch.contiguous(memory_format=torch.channels_last), labels.to(
                device, non_blocking=True
            )

    ahead = load()

    def step(number: int) -> None:
        nonlocal ahead
        with record_function("loading"):
            batch, target = ahead
            if stream is not None:
                torch.cuda.current_stream().wait_stream(stream)
                batch.record_stream(torch.cuda.current_stream())
                target.record_stream(torch.cuda.current_stream())
            ahead = load()
        with (
            record_function("forward"),
            torch.autocast(device, torch.bfloat16, enabled=in_bf16),
        ):
            loss = F.cross_entropy(network(batch).float(), target)
        with record_function("backward"):
            optimizer.zero_grad()
            loss.backward()
        with record_function("optimizer"):
            optimizer.step()
            total.add_(loss.detach())

    return step


def _network(device: str, fused: bool) -> tuple[nn.Module, torch.optim.Optimizer]:
    torch.manual_seed(0)
    network = ResidualNetwork().to(device)
    trained = [parameter for parameter in network.parameters() if parameter.requires_grad]
    # foreach=False: one kernel for each parameter and operation, as a loop in Python has it
    options: dict[str, Any] = {"fused": True} if fused else {"foreach": False}
    return network, torch.optim.SGD(trained, lr=0.01, momentum=0.9, **options)


def _images(device: str) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(1)
    shape = (BATCH[device], 3, 32, 32)
    images = torch.randint(0, 256, shape, dtype=torch.uint8, generator=generator)
    return images, torch.randint(0, 10, shape[:1], generator=generator)


def _timed(step: Step, device: str) -> float:
    """Seconds of a step, of ten in a row: to wait after each would undo what the good one gains."""
    wait: Callable[[], object] = torch.cuda.synchronize if device == "cuda" else lambda: None
    wait()
    began = time.perf_counter()
    for number in range(STEPS):
        step(number)
    wait()
    return (time.perf_counter() - began) / STEPS


def _profiled(step: Step, place: Place, name: str) -> str:
    """The trace of ten steps, one after the other without a wait; returns its file's name."""
    activities = [ProfilerActivity.CPU] + [ProfilerActivity.CUDA] * place.gpu
    with profile(activities=activities) as profiler:
        for number in range(STEPS):
            with record_function(f"ProfilerStep#{number}"):
                step(number)
        if place.gpu:
            torch.cuda.synchronize()
    file = f"steps_{name}.pt.trace.json.gz"
    with tempfile.TemporaryDirectory() as folder:
        whole = Path(folder) / "trace.json"
        profiler.export_chrome_trace(str(whole))
        packed = gzip.compress(_smaller(whole.read_bytes()), mtime=0)
    if len(packed) > LARGEST:
        return ""
    (place.folder / file).write_bytes(packed)
    return file


def _smaller(trace: bytes) -> bytes:
    """A trace without what no viewer shows, nor where it was made; its times begin at 0."""
    content = json.loads(trace)
    for name in NOT_SHOWN:
        content.pop(name, None)
    events = content["traceEvents"]
    first = min(event["ts"] for event in events if "dur" in event)
    for event in events:
        if "ts" in event:
            event["ts"] = round(event["ts"] - first, 3)
        for name in NOT_SHOWN:
            event.get("args", {}).pop(name, None)
    content["baseTimeNanoseconds"] = content.get("baseTimeNanoseconds", 0) + round(1e3 * first)
    return json.dumps(content, separators=(",", ":")).encode()


def _copies() -> dict[str, float]:
    """Byte/s from the host to the GPU."""
    from hpml.measure.clock import quickest

    there = torch.empty(COPIED, dtype=torch.uint8, device="cuda")
    here = torch.zeros(COPIED, dtype=torch.uint8)
    return {
        name: COPIED / quickest(partial(there.copy_, source, non_blocking=True), 0.3, "cuda")
        for name, source in (("pageable", here), ("pinned", here.pin_memory()))
    }
