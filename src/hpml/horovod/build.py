"""Compile Horovod into a wheel."""

import os
import re
import sys
from collections.abc import Mapping
from pathlib import Path

from hpml.errors import UserError
from hpml.horovod import command, source
from hpml.horovod.flavour import Flavour, compiler_of, nccl_of, nvcc_of, program_of
from hpml.horovod.progress import Progress
from hpml.machine.resources import GIB, usable_cores, usable_memory

LIMIT = 3600.0  # seconds
_MEMORY_PER_JOB = 2 * GIB  # of a compiler with torch's headers
# Of the user's HOROVOD_* variables, those that name places are kept; the rest is decided here.
_PLACES = re.compile(r"HOROVOD_(CUDA_HOME|NCCL_\w+|BUILD_CUDA_CC_LIST)")
# Messages with which compilers and CMake give up; the first of these in a log is the reason.
_REASONS = (
    re.compile(r"No space left on device"),
    re.compile(r"Killed signal|internal compiler error: Killed"),
    re.compile(r"fatal error: .*"),
    re.compile(r"\berror: .*"),
    re.compile(r"CMake Error.*"),
    re.compile(r"undefined reference to .*"),
)


def build(flavour: Flavour, folder: Path, log: Path, progress: Progress) -> Path:
    """Build a wheel of this flavour in `folder`. Raises UserError with the reason."""
    archive = source.fetch(log)
    root = source.unpack(archive, folder)
    progress.begin()
    options = ["-v", "--no-deps", "--no-build-isolation", "--no-index", "--no-cache-dir"]
    pip = [sys.executable, "-m", "pip", "wheel", *options, "-w", str(folder / "wheel"), str(root)]
    lines: list[str] = []

    def on_line(line: str) -> None:
        if line:
            lines.append(line)
        progress.line(line)

    try:
        status = command.run(
            pip,
            limit=LIMIT,
            log=log,
            environment=build_environment(flavour, os.environ),
            on_line=on_line,
        )
    except TimeoutError as error:
        raise UserError(f"horovod: its build has {error}: see {log}") from None
    finally:
        progress.end()
    wheels = list((folder / "wheel").glob("*.whl"))
    if status or len(wheels) != 1:
        raise UserError(f"horovod: its build stopped: {reason(lines)}: see {log}")
    return wheels[0]


def build_environment(flavour: Flavour, environment: Mapping[str, str]) -> dict[str, str]:
    """The environment variables of the build."""
    kept = {
        name: value
        for name, value in environment.items()
        if not name.startswith("HOROVOD_") or _PLACES.fullmatch(name)
    }
    jobs = max(1, int(min(usable_cores(), usable_memory() // _MEMORY_PER_JOB)))
    ninja = Path(program_of("ninja") or "ninja")
    return kept | {
        "PATH": os.pathsep.join((str(ninja.parent), kept.get("PATH", os.defpath))),
        "CXX": compiler_of(environment) or "c++",
        "CMAKE_GENERATOR": "Ninja",
        "CMAKE_BUILD_PARALLEL_LEVEL": str(jobs),
        "CMAKE_POLICY_VERSION_MINIMUM": "3.5",  # CMake 4 refuses Gloo's files otherwise
        "HOROVOD_CMAKE": program_of("cmake") or "cmake",
        "HOROVOD_BUILD_ARCH_FLAGS": flavour.simd or " ",  # if empty, Horovod would choose
        "HOROVOD_WITH_PYTORCH": "1",
        "HOROVOD_WITH_TENSORFLOW": "1",
        "HOROVOD_WITHOUT_MXNET": "1",
        "HOROVOD_WITH_GLOO": "1",
        "HOROVOD_WITH_MPI" if flavour.mpi else "HOROVOD_WITHOUT_MPI": "1",
        **(_gpu(environment) if flavour.gpu else {}),
        "TF_CPP_MIN_LOG_LEVEL": "3",
        "PIP_DISABLE_PIP_VERSION_CHECK": "1",
    }


def _gpu(environment: Mapping[str, str]) -> dict[str, str]:
    nvcc, nccl = nvcc_of(environment), nccl_of(environment)
    return {
        "HOROVOD_GPU_OPERATIONS": "NCCL",
        "HOROVOD_CUDA_HOME": str(nvcc.parent.parent if nvcc else ""),
        "HOROVOD_NCCL_HOME": str(nccl or ""),
    }


def reason(lines: list[str]) -> str:
    """Why a build stopped, in one line, from what it printed."""
    for pattern in _REASONS:
        for line in lines:
            if found := pattern.search(line):
                if "Killed" in found[0]:
                    return "the compiler ran out of memory"
                return found[0].strip()[:200]
    printed = [line.strip() for line in lines if line.strip()]
    return printed[-1][:200] if printed else "pip printed nothing"
