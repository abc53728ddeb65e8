"""The energy of a piece of work in joules, where a processor or a GPU counts its own.

Processors of Intel and AMD add up what they use (RAPL, running average power limit). Linux shows
the counters as files: a folder for each package, and one for each of its parts (kernel
documentation, https://docs.kernel.org/power/powercap/powercap.html). NVIDIA's GPUs since Volta
count too (NVML, nvmlDeviceGetTotalEnergyConsumption). Both count everything that runs there, other
people's programs too.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

from hpml.errors import UserError

POWERCAP = Path("/sys/class/powercap")


@dataclass(frozen=True)
class Counter:
    """Joules that only grow, since some moment in the past.

    `name`: "package-0", "GPU 0". `wraps_at`: after so many joules it begins again at 0; None:
    never.
    """

    name: str
    read: Callable[[], float]
    wraps_at: float | None = None


@dataclass(frozen=True)
class Spent:
    """What a piece of work took: joules of each counter by its name, and seconds."""

    by_counter: Mapping[str, float]
    seconds: float

    @property
    def joules(self) -> float:
        """Of all counters together."""
        return sum(self.by_counter.values())

    @property
    def watts(self) -> float:
        """The mean power."""
        return self.joules / self.seconds


def spent(work: Callable[[], object], counters: Sequence[Counter]) -> Spent:
    """Do `work`, and read the counters before and after it.

    RAPL is updated about once in a millisecond, a GPU's counter every 20 to 100 ms (PETSc,
    PetscLogGpuEnergyMeter): let `work` take a second or more. A counter may wrap once meanwhile,
    not twice: one with a range of 262 kJ does so every 22 minutes at 200 W.

    Raises UserError where no counter has moved. So it is in a virtual machine that shows them and
    does not count.
    """
    before = [counter.read() for counter in counters]
    started = time.perf_counter()
    work()
    seconds = time.perf_counter() - started
    used = {}
    for counter, start in zip(counters, before, strict=True):
        grown = counter.read() - start
        used[counter.name] = grown + (counter.wraps_at or 0.0) if grown < 0 else grown
    if not any(used.values()):
        names = ", ".join(used)
        raise UserError(
            f"the energy of {names} did not change in {seconds:.2f} s: the counters of a virtual "
            "machine may stand still, use the machine itself; or measure for longer"
        )
    return Spent(used, seconds)


def processors(powercap: Path = POWERCAP) -> tuple[Counter, ...]:
    """A counter for each package: cores, caches, and what else is on the processor.

    A package's parts ("core", "uncore") are in its own count. Left out are also "dram", of which
    descriptions differ on whether the package has it, "psys", which is the whole computer, and
    intel-rapl-mmio, the same packages once more.

    Raises UserError, in one line with the reason, where there is no counter, or none to be read.
    """
    found = []
    # A folder named intel-rapl:0 is a zone, on AMD's processors too; intel-rapl:0:1 a part of it
    for zone in sorted(powercap.glob("intel-rapl:*")):
        if zone.name.count(":") > 1:
            continue
        try:
            name = (zone / "name").read_text().strip()
            if not name.startswith("package"):
                continue
            wraps_at = _joules(zone / "max_energy_range_uj")
            _joules(zone / "energy_uj")
        except PermissionError as error:
            raise UserError(
                f"{error.filename} is for root alone, because energy gives secrets away "
                f"(CVE-2020-8694): sudo chmod a+r {zone}/energy_uj, where you may"
            ) from None
        except (OSError, ValueError) as error:
            raise UserError(f"{zone} has no energy that can be read: {error}") from None
        found.append(Counter(name, partial(_joules, zone / "energy_uj"), wraps_at))
    if not found:
        raise UserError(
            f"there is no counter of energy in {powercap}: most virtual machines and containers "
            "have none, nor has macOS; use Linux on the machine itself"
        )
    return tuple(found)


def gpus(nvml: ModuleType | Any | None = None) -> tuple[Counter, ...]:
    """A counter for each GPU that PyTorch sees, "GPU 0" first.

    Raises UserError, in one line with the reason, where there is no GPU, no `pynvml` (of the
    package nvidia-ml-py), or no counter in the GPU.
    """
    import torch

    if not torch.cuda.is_available():
        raise UserError("there is no GPU here that PyTorch can use")
    if nvml is None:
        try:
            import pynvml
        except ImportError:
            raise UserError("pynvml is not installed: pip install nvidia-ml-py") from None
        nvml = pynvml
    found = []
    try:
        nvml.nvmlInit()
        for number in range(torch.cuda.device_count()):
            # NVML knows nothing of CUDA_VISIBLE_DEVICES
            uuid = f"GPU-{torch.cuda.get_device_properties(number).uuid}"
            handle = nvml.nvmlDeviceGetHandleByUUID(uuid)
            read = partial(_millijoules, nvml, handle)
            read()
            found.append(Counter(f"GPU {number}", read))
    except nvml.NVMLError as error:
        raise UserError(f"NVML reports no energy of GPU {len(found)}: {error}") from None
    return tuple(found)


def _joules(file: Path) -> float:
    return int(file.read_text()) / 1e6


def _millijoules(nvml: ModuleType | Any, handle: Any) -> float:
    return nvml.nvmlDeviceGetTotalEnergyConsumption(handle) / 1e3
