"""What this machine has, and what it costs to lack the rest: for `./hpml doctor` and reports."""

import os
import platform
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from hpml.machine import namespaces
from hpml.machine.resources import GIB, has_bfloat16, usable_cores, usable_memory
from hpml.network import available
from hpml.paths import home

MEMORY_NEEDED = 4 * GIB  # four ranks that train the course's network, a kernel and a browser


@dataclass(frozen=True)
class Fact:
    """One thing about this machine; `cost_of_lack` and `remedy` are empty where it is there.

    The course cannot run where a fact is `needed` and not `ok`.
    """

    name: str
    value: str
    ok: bool
    cost_of_lack: str = ""
    remedy: str = ""
    needed: bool = False


def facts() -> tuple[Fact, ...]:
    """All facts, in the order to be read. About 2 s, most of it to import torch."""
    return tuple(probe() for probe in _PROBES)


def can_run(known: Sequence[Fact]) -> bool:
    """Whether the course runs on the machine that has these facts."""
    return all(fact.ok for fact in known if fact.needed)


def _fact(
    name: str, value: str | None, cost_of_lack: str, remedy: str, needed: bool = False
) -> Fact:
    """A fact from a value that is None or empty where the thing is lacking."""
    if value:
        return Fact(name, value, True, needed=needed)
    return Fact(name, "none", False, cost_of_lack, remedy, needed)


def _python() -> Fact:
    ok = (3, 10) <= sys.version_info[:2] <= (3, 12)
    value = f"{platform.python_version()} in {sys.prefix}"
    if ok:
        return Fact("Python", value, True, needed=True)
    remedy = "deactivate this environment and run ./hpml again: it finds Python 3.10 to 3.12"
    return Fact("Python", value, False, "the pinned packages are not made for it", remedy, True)


def _torch() -> Fact:
    try:
        import torch
    except Exception as error:  # a broken installation may raise anything
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        remedy = "remove .venv and run ./hpml again"
        return Fact("torch", reason, False, "nothing runs without it", remedy, True)
    back_ends = [
        name
        for name in ("gloo", "nccl", "mpi")
        if torch.distributed.is_available() and getattr(torch.distributed, f"is_{name}_available")()
    ]
    value = f"{torch.__version__}, back ends {', '.join(back_ends)}"
    if "gloo" in back_ends:
        return Fact("torch", value, True, needed=True)
    return Fact(
        "torch", value, False, "ranks cannot talk to each other", "install torch by pip", True
    )


def _tensorflow() -> Fact:
    from hpml.horovod.flavour import package

    value = package("tensorflow-cpu") or package("tensorflow")
    cost = "module 05's TensorFlow and Keras exercises do not run"
    remedy = "pip install -r requirements.lock, which has it"
    if value and not (keras := package("tf-keras")):
        return Fact("TensorFlow", f"{value}, but no tf_keras", False, cost, remedy)
    return _fact("TensorFlow", value and f"{value}, {keras}", cost, remedy)


def _horovod() -> Fact:
    from hpml.horovod import ABOUT, state

    known = state.read()
    if known.works:
        return Fact("Horovod", "; ".join((str(known), *known.notes)), True)
    cost = "module 05 does not run; all else does"
    return Fact("Horovod", str(known), False, cost, f"./hpml horovod builds it ({ABOUT})")


def _cores() -> Fact:
    import psutil

    usable = usable_cores()
    physical, logical = psutil.cpu_count(logical=False), psutil.cpu_count()
    value = f"{usable:g} usable ({physical or '?'} physical, {logical} logical)"
    if usable >= 2:
        return Fact("cores", value, True)
    cost = "ranks take turns, so that no speed-up can be seen; answers are checked all the same"
    return Fact("cores", value, False, cost, "use a machine, or ask for a job, with 2 cores")


def _memory() -> Fact:
    memory = usable_memory()
    value = f"{memory / GIB:.1f} GiB"
    if memory >= MEMORY_NEEDED:
        return Fact("memory", value, True)
    cost = "four ranks that train at once may be ended by the kernel"
    return Fact("memory", value, False, cost, f"{MEMORY_NEEDED // GIB} GiB are comfortable")


def _gpus() -> Fact:
    try:
        import torch

        names = [torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count())]
    except Exception:  # a driver that does not match may raise anything
        names = []
    counts = {name: names.count(name) for name in names}
    value = ", ".join(f"{count} × {name}" for name, count in counts.items())
    cost = "training is slower, on the processor and over gloo; no exercise needs a GPU"
    return _fact("GPUs", value, cost, "submit the scripts in slurm/ where there are some")


def _bfloat16() -> Fact:
    cost = "training in bfloat16 saves no time here, so it runs in float32"
    value = "the processor multiplies it" if has_bfloat16() else None
    return _fact("bfloat16", value, cost, "a processor with AVX512-BF16, AMX or Arm BF16")


def _compiler() -> Fact:
    value = next(filter(None, map(_version, ("c++", "g++", "clang++"))), None)
    cost = "torch.compile does not work"
    return _fact("C++ compiler", value, cost, "apt install g++, or conda install gxx")


def _mpi() -> Fact:
    cost = "mpirun examples can be read but not run; ranks use gloo"
    return _fact("MPI", _version("mpirun"), cost, "apt install openmpi-bin, or environment.yml")


def _slurm() -> Fact:
    cost = "job scripts can be read but not submitted"
    if shutil.which("sinfo") is None:
        remedy = "log in to a cluster, or apt install slurm-wlm munge and ./hpml cluster up"
        return _fact("SLURM", None, cost, remedy)
    ours = home() / "cluster" / "slurm.conf"  # of ./hpml cluster up, where no other was chosen
    conf = {"SLURM_CONF": str(ours)} if ours.exists() and "SLURM_CONF" not in os.environ else {}
    version, nodes = (  # both need a configuration; the second also a slurmctld that answers
        _output("sinfo", "--version", **conf),
        _output("sinfo", "--noheader", **conf),
    )
    if version and nodes:
        where = "the cluster that ./hpml cluster up made" if conf else "a cluster"
        return Fact("SLURM", f"{version[0]}: {where} answers", True)
    remedy = "log in to a cluster, or ./hpml cluster up as root"
    return Fact("SLURM", "installed, but no cluster answers", False, cost, remedy)


def _output(*command: str, **environment: str) -> list[str]:
    """The lines that a command prints; none where it fails."""
    try:
        done = subprocess.run(
            command, env={**os.environ, **environment}, capture_output=True, text=True, timeout=20
        )
    except (OSError, subprocess.TimeoutExpired):
        return []
    return done.stdout.splitlines() if done.returncode == 0 else []


_ALLOW_NAMESPACES = (
    "ask the administrator: sysctl kernel.unprivileged_userns_clone=1 (Debian), "
    "kernel.apparmor_restrict_unprivileged_userns=0 (Ubuntu)"
)


def _user_namespaces() -> Fact:
    refusal = namespaces.refusal("user")
    if refusal is None:
        return Fact("user namespaces", "can be made", True)
    cost = "no sandbox for other people's answers, no links between ranks"
    return Fact("user namespaces", f"refused: {refusal}", False, cost, _ALLOW_NAMESPACES)


def _links_between_ranks() -> Fact:
    refusal = available.refusal()
    if refusal is None:
        return Fact("links between ranks", "can be emulated, at a given rate", True)
    cost = "%%ranks --link runs without a limit, and no bytes are counted on the wire"
    remedy = _ALLOW_NAMESPACES if "namespaces" in refusal else "a Linux with veth, bridge and tbf"
    return Fact("links between ranks", refusal, False, cost, remedy)


def _bubblewrap() -> Fact:
    cost = "no sandbox for other people's answers; your own need none"
    return _fact("bubblewrap", _version("bwrap"), cost, "apt install bubblewrap")


def _data() -> Fact:
    from hpml.data import cifar10, find
    from hpml.errors import UserError

    cost = "the course runs on a SYNTHETIC set, so accuracies say nothing about CIFAR-10"
    remedy = "./hpml data downloads CIFAR-10 (170 MB); --data DIR or HPML_DATA uses a copy"
    try:
        folder = find()
    except UserError as error:
        return Fact("data", str(error), False, cost, remedy)
    if folder is None:
        return _fact("data", None, cost, remedy)
    if (folder / cifar10.SYNTHETIC).exists():
        return Fact("data", f"SYNTHETIC, in {folder}", False, cost, remedy)
    return Fact("data", f"CIFAR-10, in {folder}", True)


def _browser() -> Fact:
    known = ("firefox", "chromium", "google-chrome", "chromium-browser", "brave", "safari")
    value = next(filter(None, map(shutil.which, known)), None)
    if value is None and sys.platform == "darwin":
        value = "the system's"
    cost = "JupyterLab and the report cannot be opened on this machine"
    remedy = "open them from your own: ssh -L 8888:localhost:8888 (JupyterLab), or copy the report"
    return _fact("browser", value, cost, remedy)


def _version(program: str) -> str | None:
    """The first line of `program --version`, its path if that prints none; None if not there."""
    path = shutil.which(program)
    if path is None:
        return None
    try:
        done = subprocess.run([path, "--version"], capture_output=True, text=True, timeout=10)
    except (OSError, subprocess.TimeoutExpired):
        return None
    if done.returncode != 0:
        return None
    return next((line.strip() for line in done.stdout.splitlines() if line.strip()), path)


_PROBES: tuple[Callable[[], Fact], ...] = (
    _python,
    _torch,
    _tensorflow,
    _horovod,
    _cores,
    _memory,
    _gpus,
    _bfloat16,
    _compiler,
    _mpi,
    _slurm,
    _user_namespaces,
    _links_between_ranks,
    _bubblewrap,
    _data,
    _browser,
)
