"""Joules from made-up powercap folders and a made-up NVML, and why there may be none."""

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from hpml.errors import UserError
from hpml.modules.m08_case_studies.lecture import energy
from hpml.modules.m08_case_studies.lecture.energy import Counter, gpus, processors, spent

Zone = Callable[..., Path]


@pytest.fixture
def zone(tmp_path: Path) -> Zone:
    """Make a zone of powercap, and the file that counts: `zone("intel-rapl:0", "package-0", 5)`."""

    def make(folder: str, name: str, microjoules: int, wraps_at: int = 262_143_328_850) -> Path:
        there = tmp_path / folder
        there.mkdir()
        (there / "name").write_text(f"{name}\n")
        (there / "max_energy_range_uj").write_text(f"{wraps_at}\n")
        (there / "energy_uj").write_text(f"{microjoules}\n")
        return there / "energy_uj"

    return make


def test_the_joules_of_a_package(zone: Zone, tmp_path: Path):
    counter = zone("intel-rapl:0", "package-0", 1_000_000)
    used = spent(lambda: counter.write_text("3500000\n"), processors(tmp_path))
    assert used.by_counter == {"package-0": 2.5}
    assert used.joules == 2.5
    assert used.watts == pytest.approx(2.5 / used.seconds)


def test_a_counter_that_has_begun_again(zone: Zone, tmp_path: Path):
    counter = zone("intel-rapl:0", "package-0", 65_532_000_000, wraps_at=65_532_610_987)
    used = spent(lambda: counter.write_text("1000000"), processors(tmp_path))
    assert used.joules == pytest.approx(1.610987)


def test_packages_are_added_and_their_parts_are_not(zone: Zone, tmp_path: Path):
    packages = [
        zone("intel-rapl:0", "package-0", 0),
        zone("intel-rapl:1", "package-1-die-0", 10),
    ]
    others = [
        zone("intel-rapl:0:0", "core", 0),
        zone("intel-rapl:0:1", "dram", 0),
        zone("intel-rapl:1:0", "core", 0),
        zone("intel-rapl:2", "psys", 0),
        zone("intel-rapl-mmio:0", "package-0", 0),
    ]
    (tmp_path / "intel-rapl").mkdir()  # the control type, with no counter of its own

    def work() -> None:
        for counter in packages + others:
            counter.write_text(str(int(counter.read_text()) + 2_000_000))

    used = spent(work, processors(tmp_path))
    assert used.by_counter == {"package-0": 2.0, "package-1-die-0": 2.0}
    assert used.joules == 4.0


@pytest.mark.parametrize("there", ["nothing", "no zone", "no package"])
def test_without_a_counter_the_reason_is_one_line(zone: Zone, tmp_path: Path, there: str):
    folder = tmp_path / "absent" if there == "nothing" else tmp_path
    if there == "no package":
        zone("intel-rapl:0", "psys", 0)
    with pytest.raises(UserError, match=r"no counter of energy.*virtual machines") as refused:
        processors(folder)
    assert "\n" not in str(refused.value)


def test_without_permission_the_remedy_is_named(
    zone: Zone, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    zone("intel-rapl:0", "package-0", 0)

    def read_text(file: Path) -> str:  # root may read what others may not
        if file.name == "energy_uj":
            raise PermissionError(13, "Permission denied", str(file))
        return "package-0" if file.name == "name" else "1"

    monkeypatch.setattr(Path, "read_text", read_text)
    with pytest.raises(UserError, match=r"energy_uj is for root alone.*chmod a\+r") as refused:
        processors(tmp_path)
    assert "\n" not in str(refused.value)


def test_a_counter_that_is_no_number_is_named(zone: Zone, tmp_path: Path):
    zone("intel-rapl:0", "package-0", 0).write_text("")
    with pytest.raises(UserError, match="intel-rapl:0 has no energy that can be read"):
        processors(tmp_path)


def test_counters_that_stand_still_are_no_measurement(zone: Zone, tmp_path: Path):
    zone("intel-rapl:0", "package-0", 0)
    with pytest.raises(UserError, match=r"package-0 did not change.*virtual machine"):
        spent(lambda: None, processors(tmp_path))


def test_one_of_two_counters_may_stand_still():
    idle = Counter("package-1", lambda: 7.0)
    values = iter([1.0, 3.0])
    used = spent(lambda: None, (Counter("package-0", lambda: next(values)), idle))
    assert used.by_counter == {"package-0": 2.0, "package-1": 0.0}


class NVMLError(Exception):
    pass


@pytest.fixture
def nvml(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """NVML with two GPUs, of which PyTorch sees the second."""
    counts = {"GPU-a": 0, "GPU-b": 1_000}
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    seen = SimpleNamespace(uuid="b")
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda number: seen)
    return SimpleNamespace(
        nvmlInit=lambda: None,
        nvmlDeviceGetHandleByUUID=lambda uuid: uuid,
        nvmlDeviceGetTotalEnergyConsumption=lambda handle: counts[handle],
        NVMLError=NVMLError,
        counts=counts,
    )


def test_the_joules_of_the_gpu_that_pytorch_sees(nvml: SimpleNamespace):
    used = spent(lambda: nvml.counts.update({"GPU-a": 9_999, "GPU-b": 4_000}), gpus(nvml))
    assert used.by_counter == {"GPU 0": 3.0}


def test_a_gpu_that_does_not_count(nvml: SimpleNamespace):
    def refused(handle: str) -> int:
        raise NVMLError("Not Supported")

    nvml.nvmlDeviceGetTotalEnergyConsumption = refused
    with pytest.raises(UserError, match="no energy of GPU 0: Not Supported"):
        gpus(nvml)


def test_without_a_gpu(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(UserError, match="no GPU"):
        gpus()


def test_without_pynvml(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setitem(__import__("sys").modules, "pynvml", None)
    with pytest.raises(UserError, match="pip install nvidia-ml-py"):
        gpus()


def test_the_folder_is_the_kernels():
    assert Path("/sys/class/powercap") == energy.POWERCAP
