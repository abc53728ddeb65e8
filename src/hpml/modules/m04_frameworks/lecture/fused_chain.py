"""One chain of small operators, eager and compiled: bytes moved, kernels, seconds to compile.

Called in turn: as PyTorch comes, where each result is a fresh mapping whose pages the kernel
clears, and with freed memory kept by the process (hpml.machine.freed_memory), where fusion alone
is left. Beside the latter: a copy of as many bytes as the compiled kernel moves, and tanh alone.

In processes of their own (python -m MODULE), with a fresh cache for compiled code: the first
process pays for all of the compiler's work, its precompiled headers and its tests of the
instruction set included; the second finds it all in the cache.
"""

import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import textwrap
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from statistics import median
from typing import TYPE_CHECKING

from hpml.errors import UserError
from hpml.machine.freed_memory import freed_memory_kept
from hpml.measure.gain import Gain, Seconds

if TYPE_CHECKING:
    from torch import Tensor

ELEMENTS = 2**23
ROUNDS = 7
LIMIT = 240.0  # seconds of one process: on a busy machine a compiler takes minutes
ROOT_TWO_OVER_PI = 0.7978845608
RESULT = "fused chain: "
MODULE = "hpml.modules.m04_frameworks.lecture.fused_chain"


def gelu(x: "Tensor") -> "Tensor":
    """The GELU activation of x, as its formula reads (Hendrycks and Gimpel 2016,
    arXiv:1606.08415, section 2, with tanh)."""
    return 0.5 * x * (1 + (ROOT_TWO_OVER_PI * (x + 0.044715 * x * x * x)).tanh())


@dataclass(frozen=True)
class Chain:
    """`operators` and `moved` (bytes read and written) are eager mode's; `kernels` are the names
    of the compiled ones, `compiled_moved` their bytes. `gain` is as PyTorch comes, `gain_kept` with
    freed memory kept, one thread each. With it kept too: seconds of a copy of as many bytes as the
    kernel moves, and of tanh alone, medians. Seconds of the first call, with an empty and with a
    full cache. `difference` is the largest between the results, `loop` the loop that the compiler
    wrote, in C++."""

    elements: int
    operators: int
    moved: int
    kernels: tuple[str, ...]
    compiled_moved: int
    gain: Gain
    gain_kept: Gain
    copied: float
    tanh: float
    first_call: float
    first_call_cached: float
    difference: float
    loop: str

    @property
    def break_even(self) -> float:
        """Calls after which compiling has paid; infinite if the compiled code is no faster."""
        saved = median(self.gain.before) - median(self.gain.after)
        return self.first_call / saved if saved > 0 else float("inf")

    @property
    def fused(self) -> bool:
        """Whether one kernel computes the same, faster, with less than half of the bytes."""
        return (
            len(self.kernels) == 1
            and self.moved > 2 * self.compiled_moved
            and self.gain.factor > 1
            and self.difference < 1e-4
        )

    def __str__(self) -> str:
        mebibytes = [f"{moved / 2**20:.0f} MiB" for moved in (self.moved, self.compiled_moved)]
        rows = [
            ("", "eager", "compiled"),
            ("kernels", f"{self.operators}", f"{len(self.kernels)}"),
            ("bytes moved", *mebibytes),
            ("one call", *_milliseconds(self.gain)),
            ("one call, freed memory kept", *_milliseconds(self.gain_kept)),
            ("first call", "", f"{self.first_call:.1f} s"),
            ("first call, from the cache", "", f"{self.first_call_cached:.1f} s"),
        ]
        return "\n".join(f"{name:29}{eager:>10}{compiled:>12}" for name, eager, compiled in rows)


def _milliseconds(gain: Gain) -> list[str]:
    """Medians of both, for a table."""
    return [f"{1e3 * median(seconds):.1f} ms" for seconds in (gain.before, gain.after)]


def missing() -> str:
    """What the compiler needs and this machine lacks; empty if nothing."""
    wanted = os.environ.get("CXX", "g++")
    if shutil.which(wanted):
        return ""
    return f"{wanted} is not installed: torch.compile needs a C++ compiler (apt install g++)"


def compare(elements: int = ELEMENTS) -> Chain:
    """Measure it, twice with one cache, which is removed. Raises UserError where that fails."""
    if lacking := missing():
        raise UserError(lacking)
    with tempfile.TemporaryDirectory(prefix="hpml-compile-") as cache:
        first, second = (_measured(elements, cache) for _ in range(2))
    record = {**first, "first_call_cached": second["first_call"]}
    gains = {name: Gain(**first[name]) for name in ("gain", "gain_kept")}
    return Chain(**{**record, **gains, "kernels": tuple(first["kernels"])})


def _measured(elements: int, cache: str) -> dict:
    settings = {
        "TORCHINDUCTOR_CACHE_DIR": cache,
        "TMPDIR": cache,  # where it puts precompiled headers, 150 MB
        "TORCHINDUCTOR_COMPILE_THREADS": "1",  # in this process: no workers to wait for
        "OMP_NUM_THREADS": "1",
    }
    process = subprocess.Popen(
        [sys.executable, "-m", MODULE, str(elements)],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        env={**os.environ, **settings}, start_new_session=True,
    )  # fmt: skip
    try:
        output, errors = process.communicate(timeout=LIMIT)
    except subprocess.TimeoutExpired:
        raise UserError(f"torch.compile: no result after {LIMIT:.0f} s") from None
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)  # the compiler too
        process.wait()
    results = [line for line in output.splitlines() if line.startswith(RESULT)]
    if process.returncode or not results:
        last = (errors.strip().splitlines() or [f"exit code {process.returncode}"])[-1]
        raise UserError(f"torch.compile: {last}")
    return json.loads(results[-1].removeprefix(RESULT))


def loop_of(code: str) -> str:
    """The first loop in the code that the compiler wrote, up to its brace; "" if there is none."""
    lines = code.splitlines()
    first = next((k for k, line in enumerate(lines) if line.lstrip().startswith("for(")), None)
    if first is None:
        return ""
    depth = len(lines[first]) - len(lines[first].lstrip())
    last = next(k for k in range(first, len(lines)) if lines[k].rstrip() == " " * depth + "}")
    return textwrap.dedent("\n".join(lines[first : last + 1]))


def _measure(elements: int) -> Chain:
    import torch
    from torch._inductor.utils import run_and_get_code

    from hpml.modules.m04_frameworks.lecture import operators_run

    torch.set_num_threads(1)
    x = torch.randn(elements)
    ran = operators_run.recorded(gelu, x)
    compiled = torch.compile(gelu, fullgraph=True)
    started = time.perf_counter()
    result, [code] = run_and_get_code(compiled, x)
    first_call = time.perf_counter() - started
    kernels = re.findall(r"^(cpp_fused\w*) = async_compile", code, re.MULTILINE)
    eager_fresh, compiled_fresh = _in_turn(lambda: gelu(x), lambda: compiled(x))
    there = torch.empty_like(x)
    with freed_memory_kept():
        eager_kept, compiled_kept, copied, tanh = _in_turn(
            lambda: gelu(x),
            lambda: compiled(x),
            lambda: there.copy_(x),
            lambda: torch.tanh(x, out=there),
        )
    nbytes = x.numel() * x.element_size()
    return Chain(
        elements=elements,
        operators=len(ran),
        moved=operators_run.bytes_moved(ran),
        kernels=tuple(kernels),
        compiled_moved=2 * nbytes * len(kernels),  # each reads one tensor and writes one
        gain=Gain(eager_fresh, compiled_fresh),
        gain_kept=Gain(eager_kept, compiled_kept),
        copied=median(copied),
        tanh=median(tanh),
        first_call=first_call,
        first_call_cached=0.0,
        difference=(result - gelu(x)).abs().max().item(),
        loop=loop_of(code),
    )


def _in_turn(*works: Callable[[], object]) -> list[Seconds]:
    """Seconds of each in ROUNDS rounds, after one that is not counted."""
    taken: list[list[float]] = [[] for _ in works]
    for _ in range(ROUNDS + 1):
        for seconds, work in zip(taken, works, strict=True):
            started = time.perf_counter()
            work()
            seconds.append(time.perf_counter() - started)
    return [tuple(seconds[1:]) for seconds in taken]


if __name__ == "__main__":
    print(RESULT + json.dumps(asdict(_measure(int(sys.argv[1])))))
