"""Sockets, NUMA nodes, cores, hardware threads, caches and GPUs of a machine, as the kernel has it.

A CPU is what the kernel schedules on and numbers: a hardware thread. A core has one or several; a
NUMA node is cores and the memory next to them; a socket has one or several NUMA nodes.

Where Linux lists it: Documentation/admin-guide/cputopology.rst and
Documentation/ABI/stable/sysfs-devices-node, sysfs-devices-system-cpu of the kernel's sources.
"""

import contextlib
import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from hpml.errors import UserError

KIB = 1024
# A GPU that computes, and not what a server shows its console on: vendor, and beginnings of class
# (pci.ids: 03 display controller, of which 0302 is "3D controller"; 1200 processing accelerator)
GPU_CLASSES = {"0x10de": ("0x03",), "0x1002": ("0x03", "0x1200"), "0x8086": ("0x0302", "0x0380")}


@dataclass(frozen=True)
class Core:
    """One core: where it is, and the CPUs that are its hardware threads."""

    socket: int
    numa: int
    cpus: tuple[int, ...]


@dataclass(frozen=True)
class Cache:
    """One cache: level 1 to 4, what it holds (Data, Instruction, Unified), bytes, who shares it."""

    level: int
    kind: str
    nbytes: int
    cpus: tuple[int, ...]


@dataclass(frozen=True)
class Gpu:
    """One GPU: its PCI address, and its NUMA node, None where the firmware does not say."""

    address: str
    numa: int | None


@dataclass(frozen=True)
class Topology:
    """What a machine consists of. `allowed` are the CPUs on which this process may run.

    `memory` is bytes by NUMA node, empty where it is not known. Cores and caches that are switched
    off are in none of them.
    """

    cores: tuple[Core, ...]
    allowed: tuple[int, ...]
    caches: tuple[Cache, ...] = ()
    gpus: tuple[Gpu, ...] = ()
    memory: Mapping[int, int] | None = None

    @property
    def cpus(self) -> tuple[int, ...]:
        """All CPUs, in ascending order."""
        return tuple(sorted(cpu for core in self.cores for cpu in core.cpus))

    @property
    def sockets(self) -> tuple[int, ...]:
        return tuple(sorted({core.socket for core in self.cores}))

    @property
    def numa_nodes(self) -> tuple[int, ...]:
        return tuple(sorted({core.numa for core in self.cores}))

    def in_numa(self, node: int) -> tuple[Core, ...]:
        """The cores of a NUMA node, by the number of their first CPU."""
        return tuple(core for core in self.cores if core.numa == node)

    def usable(self) -> "Topology":
        """What is left of it for this process: cores of which it may use a CPU, and these CPUs."""
        allowed = set(self.allowed)
        cores = [
            replace(core, cpus=tuple(cpu for cpu in core.cpus if cpu in allowed))
            for core in self.cores
        ]
        return replace(self, cores=tuple(core for core in cores if core.cpus))

    def sentence(self) -> str:
        """In words: "128 cores with 2 hardware threads each, in 2 sockets and 8 NUMA nodes"."""
        per_core = sorted({len(core.cpus) for core in self.cores})
        threads = "1 hardware thread each" if per_core == [1] else (
            f"{' or '.join(map(str, per_core))} hardware threads each"
        )  # fmt: skip
        where = (
            f"{_many(len(self.sockets), 'socket')} and {_many(len(self.numa_nodes), 'NUMA node')}"
        )
        text = f"{_many(len(self.cores), 'core')} with {threads}, in {where}"
        if self.gpus:
            text += f", and {_many(len(self.gpus), 'GPU')}"
        if len(self.allowed) < len(self.cpus):
            text += f"; this process may use CPUs {cpu_list(self.allowed)}"
        return text


def read(root: Path | str = "/") -> Topology:
    """The topology of this machine, from /sys and /proc/self/status.

    `root` is the folder that holds `sys` and `proc`. What a virtual machine or a container leaves
    out is taken as plainly as can be: one NUMA node, one socket, a core for each CPU.

    Raises UserError where no CPU is listed.
    """
    root = Path(root)
    system = root / "sys/devices/system"
    allowed = _allowed(root / "proc/self/status")
    online = _cpus(system / "cpu/online") or allowed
    if not online:
        raise UserError(f"{system / 'cpu/online'}: no CPU is listed: the topology needs Linux")
    numa_of = _numa_of(system / "node")
    cores = {_core(system / "cpu", cpu, online, numa_of) for cpu in online}
    return Topology(
        cores=tuple(sorted(cores, key=lambda core: core.cpus)),
        allowed=tuple(cpu for cpu in online if not allowed or cpu in allowed),
        caches=_caches(system / "cpu", online),
        gpus=_gpus(root / "sys/bus/pci/devices"),
        memory=_memory(system / "node", set(numa_of.values())),
    )


def made(
    sockets: int,
    cores: int,
    *,
    threads: int = 1,
    numa: int = 1,
    consecutive: bool = False,
    gpus: Sequence[int | None] = (),
    memory: int = 0,
    l3: int = 0,
    l3_cores: int = 1,
) -> Topology:
    """A node that is only described: `sockets` of `cores` each, each socket `numa` NUMA nodes.

    With several hardware `threads` a core of `consecutive` numbering has CPUs next to each other;
    else the second threads of all cores are numbered after all first ones, as Linux mostly does.
    `gpus` has the NUMA node of each; `memory` is bytes by NUMA node; `l3_cores` share `l3` bytes.

    Raises ValueError where a socket's cores do not divide into its NUMA nodes.
    """
    if cores % numa or cores % l3_cores:
        raise ValueError(f"{cores} cores do not divide by {numa} NUMA nodes or by {l3_cores}")
    total = sockets * cores
    found = []
    for number in range(total):
        step, first = (1, number * threads) if consecutive else (total, number)
        cpus = tuple(first + step * thread for thread in range(threads))
        found.append(Core(number // cores, number // (cores // numa), cpus))
    together = (found[start : start + l3_cores] for start in range(0, total, l3_cores))
    shared = [tuple(sorted(cpu for core in group for cpu in core.cpus)) for group in together]
    return Topology(
        cores=tuple(found),
        allowed=tuple(range(total * threads)),
        caches=tuple(Cache(3, "Unified", l3, cpus) for cpus in shared if l3),
        gpus=tuple(Gpu(f"0000:{16 * n + 1:02x}:00.0", node) for n, node in enumerate(gpus)),
        memory={node: memory for node in range(sockets * numa)} if memory else {},
    )


def cpus_of(text: str) -> tuple[int, ...]:
    """The numbers of a list as the kernel, taskset and SLURM write it: "0-2,8" is 0, 1, 2, 8.

    Raises ValueError for anything else.
    """
    found: set[int] = set()
    for part in text.strip().split(","):
        if part:
            first, _, last = part.partition("-")
            found |= set(range(int(first), int(last or first) + 1))
    return tuple(sorted(found))


def cpu_list(cpus: Iterable[int]) -> str:
    """The shortest list that `cpus_of` reads: 0, 1, 2, 8 is "0-2,8"."""
    runs = []
    for _, run in itertools.groupby(enumerate(sorted(set(cpus))), lambda pair: pair[1] - pair[0]):
        numbers = [cpu for _, cpu in run]
        runs.append(str(numbers[0]) + (f"-{numbers[-1]}" if len(numbers) > 1 else ""))
    return ",".join(runs)


def _many(count: int, name: str) -> str:
    return f"{count} {name}{'s' * (count != 1)}"


def _text(path: Path) -> str:
    try:
        return path.read_text().strip()
    except OSError:
        return ""


def _number(path: Path) -> int | None:
    with contextlib.suppress(ValueError):
        return int(_text(path))
    return None


def _cpus(path: Path) -> tuple[int, ...]:
    return cpus_of(_text(path))


def _allowed(status: Path) -> tuple[int, ...]:
    """CPUs of this process: what taskset, SLURM or a container's control group left of them."""
    for line in _text(status).splitlines():
        name, _, value = line.partition(":")
        if name == "Cpus_allowed_list":
            return cpus_of(value)
    return ()


def _numa_of(folder: Path) -> dict[int, int]:
    """The NUMA node of each CPU; nodes of memory alone have none."""
    nodes = {int(path.name[4:]): _cpus(path / "cpulist") for path in folder.glob("node[0-9]*")}
    return {cpu: node for node, cpus in nodes.items() for cpu in cpus}


def _memory(folder: Path, nodes: set[int]) -> dict[int, int]:
    """Bytes of memory by NUMA node: "Node 0 MemTotal: 24684100 kB"."""
    found = {}
    for node in sorted(nodes):
        for line in _text(folder / f"node{node}/meminfo").splitlines():
            words = line.split()
            if words[2:3] == ["MemTotal:"]:
                found[node] = int(words[3]) * KIB
    return found


def _core(folder: Path, cpu: int, online: Sequence[int], numa_of: Mapping[int, int]) -> Core:
    """The core of a CPU: the same one for all its hardware threads."""
    topology = folder / f"cpu{cpu}/topology"
    # Before Linux 5.4 the list had the other name; a virtual machine may have neither.
    siblings = _cpus(topology / "core_cpus_list") or _cpus(topology / "thread_siblings_list")
    cpus = tuple(one for one in siblings if one in online) or (cpu,)
    socket = _number(topology / "physical_package_id")
    # Firmware that does not say gives -1
    return Core(max(socket or 0, 0), numa_of.get(cpu, 0), cpus)


def _caches(folder: Path, online: Sequence[int]) -> tuple[Cache, ...]:
    found = set()
    for cpu in online:
        for index in (folder / f"cpu{cpu}/cache").glob("index[0-9]*"):
            level, size = _number(index / "level"), _text(index / "size")
            if level is None or not size.endswith("K"):
                continue  # some virtual machines list caches without a size
            shared = tuple(one for one in _cpus(index / "shared_cpu_list") if one in online)
            found.add(Cache(level, _text(index / "type"), int(size[:-1]) * KIB, shared or (cpu,)))
    return tuple(sorted(found, key=lambda cache: (cache.level, cache.kind, cache.cpus)))


def _gpus(folder: Path) -> tuple[Gpu, ...]:
    found = []
    for device in sorted(folder.glob("*")):
        classes = GPU_CLASSES.get(_text(device / "vendor"), ())
        if _text(device / "class").startswith(classes) and classes:
            numa = _number(device / "numa_node")
            found.append(Gpu(device.name, numa if numa is not None and numa >= 0 else None))
    return tuple(found)
