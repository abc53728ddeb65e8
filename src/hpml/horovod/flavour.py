"""What Horovod would be built against on this machine, and what is missing for it."""

import hashlib
import json
import os
import platform
import re
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from functools import cache
from importlib import metadata
from pathlib import Path

from hpml.horovod import VERSION

PATCH = Path(__file__).with_name(f"horovod-{VERSION}.patch")
COMPILERS = ("c++", "g++", "clang++")
_SIMD = ("f16c", "avx", "fma")  # what Horovod's sums of half-precision numbers can use
_CUDA = "/usr/local/cuda"  # where NVIDIA's installer puts it
_LIMIT = 60.0  # seconds for one call of a compiler

_CXX20 = "#include <concepts>\nint main() { return 0; }\n"
_MPI = "#include <mpi.h>\nint main() { int up; return MPI_Initialized(&up); }\n"


@dataclass(frozen=True)
class Flavour:
    """All that makes one wheel differ from another. `mpi` and `gpu` are empty if left out."""

    horovod: str
    patch: str  # digest
    python: str
    torch: str  # package and version
    tensorflow: str
    mpi: str
    gpu: str
    compiler: str
    simd: str  # instruction sets beyond the processor architecture's smallest
    platform: str  # architecture, C library
    notes: tuple[str, ...] = field(default=(), compare=False)  # what was left out, and why

    @property
    def key(self) -> str:
        """A name for this flavour: 16 hexadecimal digits."""
        parts = {name: value for name, value in asdict(self).items() if name != "notes"}
        return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:16]

    @property
    def frameworks(self) -> str:
        return f"{self.torch}, {self.tensorflow}"

    @property
    def transports(self) -> str:
        return ", ".join(["Gloo", *["MPI"] * bool(self.mpi), *["NCCL"] * bool(self.gpu)])


def detect(environment: Mapping[str, str] = os.environ) -> tuple[Flavour | None, list[str]]:
    """The flavour for this environment, or None and what is missing: a line each, with a remedy."""
    torch, tensorflow = _torch(), _tensorflow()
    missing = [
        f"{name} is not installed: pip install -r requirements.lock"
        for name, version in (("torch", torch), ("tensorflow", tensorflow))
        if not version
    ]
    missing += [
        f"no {program}: pip install {program}"
        for program in ("cmake", "ninja")
        if program_of(program) is None
    ]
    if not (Path(sysconfig.get_path("include")) / "Python.h").is_file():
        package = "python{}.{}-dev".format(*sys.version_info)
        missing.append(f"no Python.h: apt install {package}, or conda's Python")
    compiler = compiler_of(environment)
    if compiler is None:
        missing.append("no C++ compiler: apt install g++, or conda install cxx-compiler")
    elif not _compiles((compiler, "-std=c++20"), _CXX20):
        missing.append(
            f"{compiler} does not compile C++20: apt install g++ (10 or newer), "
            "or name another by the variable CXX"
        )
    if missing:
        return None, missing
    mpi, without_mpi = _mpi()
    gpu, without_gpu = _gpu(environment)
    flavour = Flavour(
        horovod=VERSION,
        patch=hashlib.sha256(PATCH.read_bytes()).hexdigest()[:16],
        python=sysconfig.get_config_var("SOABI") or platform.python_version(),
        torch=torch,
        tensorflow=tensorflow,
        mpi=mpi,
        gpu=gpu,
        compiler=_output_line(compiler, "--version"),
        simd=simd(),
        platform=" ".join((sys.platform, platform.machine(), *platform.libc_ver())),
        notes=tuple(filter(None, (without_mpi, without_gpu))),
    )
    return flavour, []


def compiler_of(environment: Mapping[str, str] = os.environ) -> str | None:
    """The C++ compiler that CMake will use; CXX names it, without options."""
    wanted = [environment["CXX"]] if environment.get("CXX") else COMPILERS
    return next(filter(None, map(shutil.which, wanted)), None)


def program_of(name: str) -> str | None:
    """A program of this environment, which need not be on PATH, or else the one on PATH."""
    return shutil.which(name, path=sysconfig.get_path("scripts")) or shutil.which(name)


def simd() -> str:
    """Compiler options for those of `_SIMD` that this processor has."""
    try:
        flags = re.search(r"^flags\s*:(.*)$", Path("/proc/cpuinfo").read_text(), re.M)
    except OSError:
        flags = None
    return " ".join(f"-m{name}" for name in _SIMD if flags and name in flags[1].split())


def _mpi() -> tuple[str, str]:
    """What identifies the MPI that Horovod can be built with, or "" and why there is none."""
    compiler = shutil.which("mpicxx")
    if compiler is None:
        return "", "without MPI, as there is no mpicxx: apt install libopenmpi-dev openmpi-bin"
    if not _compiles((compiler,), _MPI):
        return "", f"without MPI, as {compiler} compiles no MPI program: load its module anew"
    return f"{_output_line(compiler, '-show')} {_output_line('mpirun', '--version')}", ""


def _gpu(environment: Mapping[str, str]) -> tuple[str, str]:
    """What identifies the CUDA and NCCL that were asked for, or "" and why they are left out."""
    wanted = environment.get("HOROVOD_GPU_OPERATIONS", "")
    if not wanted:
        return "", ""
    left_out = f"without HOROVOD_GPU_OPERATIONS={wanted}, as"
    if wanted != "NCCL":
        return "", f"{left_out} only NCCL is built here"
    nvcc, nccl = nvcc_of(environment), nccl_of(environment)
    if nvcc is None:
        return "", f"{left_out} there is no nvcc: load the cluster's CUDA module"
    if nccl is None:
        return "", f"{left_out} there is no nccl.h: load NCCL's module, or name HOROVOD_NCCL_HOME"
    if not _torch_has_cuda():
        return "", f"{left_out} {_torch()} is built without CUDA"
    return f"NCCL {nccl} {_output_line(str(nvcc), '--version')}", ""


def nvcc_of(environment: Mapping[str, str] = os.environ) -> Path | None:
    """CUDA's compiler: where variables point, on PATH, or where NVIDIA's installer puts it."""
    named = [environment.get(name) for name in ("HOROVOD_CUDA_HOME", "CUDA_HOME")]
    places = [f"{home}/bin" for home in named if home]
    places += [environment.get("PATH", ""), f"{_CUDA}/bin"]
    found = next(filter(None, (shutil.which("nvcc", path=place) for place in places)), None)
    return Path(found) if found else None


def nccl_of(environment: Mapping[str, str] = os.environ) -> Path | None:
    """The folder above include/nccl.h: where variables point, beside nvcc, or the system's."""
    places = [environment.get(name) for name in ("HOROVOD_NCCL_HOME", "NCCL_HOME", "CONDA_PREFIX")]
    nvcc = nvcc_of(environment)
    places += [str(nvcc.parent.parent) if nvcc else None, "/usr"]
    folders = [Path(place) for place in places if place]
    return next((f for f in folders if (f / "include" / "nccl.h").is_file()), None)


def _torch_has_cuda() -> bool:
    """Whether torch was built with CUDA, read from its version.py: importing it takes seconds."""
    for file in metadata.files("torch") or ():
        if str(file) == "torch/version.py":
            return re.search(r"^cuda\b[^=]*= *['\"]", file.read_text(), re.M) is not None
    return False


def installed() -> str:
    """The frameworks of this environment. Neither is imported, as that takes seconds."""
    return f"{_torch()}, {_tensorflow()}"


def _torch() -> str:
    return package("torch")


def _tensorflow() -> str:
    """The CPU build has a package of its own, which may come with an empty one named tensorflow."""
    return package("tensorflow-cpu") or package("tensorflow")


def package(name: str) -> str:
    """Name and version of an installed package; "" where it is not installed."""
    try:
        return f"{name} {metadata.version(name)}"
    except metadata.PackageNotFoundError:
        return ""


def _compiles(command: tuple[str, ...], source: str) -> bool:
    """Whether a program can be compiled and linked."""
    with tempfile.TemporaryDirectory(prefix="hpml-") as folder:
        file = Path(folder) / "try.cc"
        file.write_text(source)
        try:
            done = subprocess.run(
                (*command, file, "-o", f"{folder}/try"), capture_output=True, timeout=_LIMIT
            )
        except (OSError, subprocess.TimeoutExpired):
            return False
    return done.returncode == 0


@cache
def _output_line(*command: str) -> str:
    """What a program prints, as one line; "" where it does not run."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_LIMIT)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return " ".join(done.stdout.split())
