"""Variables that set threads and their places, each tried on training steps in its own process."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from hpml.frameworks.run import told
from hpml.machine.resources import usable_cores

SCRIPT = Path(__file__).with_name("step_torch.py")
CLEAR = 1.15  # times as fast: the least gain that counts as one
ALIKE = 1.05  # times the slower of two runs of one setting, or less of the quicker: no difference
TOO_GOOD = 1.3  # times the cores: more means that other programs had a core while one was tried


@dataclass(frozen=True)
class Trial:
    """`setting`: "OMP_NUM_THREADS=2, KMP_BLOCKTIME=0". Seconds of the quickest training step (the
    kernels are oneDNN's and PyTorch's) and of the quickest float64 product (MKL's). `threads`: of
    PyTorch's loops, as it counts them itself."""

    setting: str
    step: float
    product: float
    threads: int = 0


@dataclass(frozen=True)
class Tried:
    """All trials, one thread first, then one for each of the `cores`, then two for each; the OpenMP
    libraries that were loaded, and which variables' names stand in them (also of variables not
    tried). `again`: the second trial's setting, at the end once more."""

    cores: int
    trials: tuple[Trial, ...]
    libraries: tuple[str, ...]
    known: Mapping[str, bool]
    again: Trial

    def __str__(self) -> str:
        lines = [f"{'setting':50}{'threads':>8}{'step':>10}{'product':>10}"]
        once_more = replace(self.again, setting=f"{self.again.setting}, again")
        lines += [
            f"{one.setting:50}{one.threads:8}{1e3 * one.step:7.1f} ms{1e3 * one.product:7.1f} ms"
            for one in (*self.trials, once_more)
        ]
        return "\n".join(lines)

    @property
    def best(self) -> Trial:
        """The quickest trial, of those whose variables a loaded library reads; the second with the
        quicker of its two runs."""
        unread = [name for name, there in self.known.items() if self.libraries and not there]
        tried = [
            one for one in self.trials if not any(f"{name}=" in one.setting for name in unread)
        ] + [self.again]
        return min(tried, key=lambda one: one.step)

    @property
    def gain(self) -> float:
        """How many times as fast as with one thread the best is."""
        return self.trials[0].step / self.best.step

    @property
    def held(self) -> bool:
        """The best is clearly faster than one thread, and no faster than the cores can be."""
        return CLEAR < self.gain < TOO_GOOD * self.cores

    @property
    def differs_as_much(self) -> bool:
        """Whether the two runs of the second setting differ by as much as the best gains."""
        both = self.trials[1].step, self.again.step
        return min(both) - self.best.step <= max(both) - min(both)

    @property
    def alike(self) -> list[str]:
        """Settings whose step takes no more and no less than the two runs of the second one do."""
        both = self.trials[1].step, self.again.step
        low, high = min(both) / ALIKE, max(both) * ALIKE
        return [one.setting for one in self.trials[2:] if low <= one.step <= high]

    @property
    def known_library(self) -> bool:
        """Whether an OpenMP library is loaded that reads the standard's variable."""
        return bool(self.libraries) and self.known["OMP_NUM_THREADS"]


# Who waits how, and where: values of the standard's variables, which libgomp reads, and of Intel's
STANDARD = (
    {"OMP_WAIT_POLICY": "passive"},
    {"OMP_PROC_BIND": "close"},
)
INTEL = (
    {"KMP_BLOCKTIME": "0"},
    {"KMP_BLOCKTIME": "infinite"},
    {"KMP_AFFINITY": "granularity=fine,compact,1,0"},
    {"KMP_AFFINITY": "granularity=fine,scatter"},
)


def settings(cores: int, libraries: Sequence[str] = ()) -> list[dict[str, str]]:
    """What is tried: threads, then with a thread for each core who waits how, and where.

    Intel's variables where one of the OpenMP libraries reads them, else the standard's.
    """
    full = {"OMP_NUM_THREADS": str(cores)}
    own = INTEL if all(reads(libraries, name) for each in INTEL for name in each) else STANDARD
    return [
        {"OMP_NUM_THREADS": "1"},
        full,
        {"OMP_NUM_THREADS": str(2 * cores)},
        {"OMP_NUM_THREADS": str(2 * cores), "MKL_DYNAMIC": "FALSE"},
        {**full, "MKL_NUM_THREADS": "1"},
        *({**full, **each} for each in own),
    ]


def compare(steps: int = 8) -> Tried:
    """Each of `settings`, and the second once more, with the quickest of so many steps. Half a
    minute.

    Raises UserError where a process fails.
    """
    trials: list[Trial] = []
    libraries: list[str] = []
    cores = max(1, int(usable_cores()))
    # The first process reports which libraries there are, and so what else there is to try.
    while len(trials) < len(wanted := settings(cores, libraries)) + 1:
        setting = wanted[len(trials)] if len(trials) < len(wanted) else wanted[1]
        own = {"HPML_STEPS": str(steps), "HPML_PRODUCT": "1", **setting}
        record = told(SCRIPT, environment=own)
        libraries = record["openmp"]
        shown = ", ".join(f"{name}={value}" for name, value in setting.items())
        trials.append(Trial(shown, record["step"], record["product"], record["threads"]))
    names = dict.fromkeys(name for each in (*wanted, *STANDARD, *INTEL) for name in each)
    known = {name: reads(libraries, name) for name in names if not name.startswith("MKL")}
    return Tried(cores, tuple(trials[:-1]), tuple(libraries), known, trials[-1])


def reads(libraries: Sequence[str], variable: str) -> bool:
    """Whether the name of the variable stands in one of the files.

    libgomp reads OMP_NAME and GOMP_NAME by the rest of their name.
    """
    words = [variable.encode()]
    if variable.startswith("OMP_"):
        words.append(variable.removeprefix("OMP_").encode())
    contents = [Path(path).read_bytes() for path in libraries]
    return any(word in content for word in words for content in contents)
