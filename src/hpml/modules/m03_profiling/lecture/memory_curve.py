"""Memory of tensors over time, from the allocations that a profiler recorded."""

from dataclasses import dataclass

import numpy as np

from hpml.errors import UserError
from hpml.trace.profiler.phases import phases
from hpml.trace.profiler.trace import Trace


@dataclass(frozen=True)
class MemoryCurve:
    """What one device's allocator holds for tensors after each of m records."""

    device: str
    at: np.ndarray  # float64 [m], seconds on the trace's clock
    allocated: np.ndarray  # int64 [m], bytes

    @property
    def peak(self) -> int:
        """The most bytes that were held."""
        return int(self.allocated.max())

    @property
    def peak_at(self) -> float:
        """When that was first so, in seconds."""
        return float(self.at[self.allocated.argmax()])


def memory_curve(trace: Trace, device: str | None = None) -> MemoryCurve:
    """The curve of a device ("cpu", "cuda:0"), or of the one with most records where it is None.

    torch.profiler counts from its own start: what was there before is in it only for a GPU. Where
    a trace has no totals, they are the sums of what was allocated and freed, from 0 on.

    Raises UserError where no memory was recorded, or none on that device.
    """
    found = trace.allocations
    if not len(found.at):
        raise UserError("trace: it has no memory in it: record it with profile_memory=True")
    if device is None:
        device = found.devices[int(np.bincount(found.device).argmax())]
    if device not in found.devices:
        raise UserError(
            f"trace: no memory of {device} is in it: name one of {', '.join(found.devices)}"
        )
    here = found.device == found.devices.index(device)
    allocated = found.allocated[here]
    if not allocated.any():
        allocated = np.cumsum(found.change[here])
    return MemoryCurve(device, found.at[here], allocated)


def phase_at_peak(trace: Trace, curve: MemoryCurve) -> str | None:
    """The phase that the main thread was in when `curve` had its peak; None: in none."""
    for phase, time in phases(trace).on_host.items():
        if ((time[:, 0] <= curve.peak_at) & (curve.peak_at < time[:, 1])).any():
            return phase
    return None
