"""Variables that set threads and their places, each tried on training steps in its own process."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from hpml.frameworks.run import told
from hpml.machine.resources import usable_cores

SCRIPT = Path(__file__).with_name("step_torch.py")
CLEAR = 1.15  # times as fast: the least gain that counts as one
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
    again: Trial | None = None

    def __str__(self) -> str:
        lines = [f"{'setting':50}{'threads':>8}{'step':>10}{'product':>10}"]
        once_more = [replace(self.again, setting=f"{self.again.setting}, again")] * bool(self.again)
        lines += [
            f"{one.setting:50}{one.threads:8}{1e3 * one.step:7.1f} ms{1e3 * one.product:7.1f} ms"
            for one in (*self.trials, *once_more)
        ]
        return "\n".join(lines)

    @property
    def best(self) -> Trial:
        """The quickest trial, of those whose variables a loaded library reads."""
        unread = [name for name, there in self.known.items() if self.libraries and not there]
        tried = [
            one for one in self.trials if not any(f"{name}=" in one.setting for name in unread)
        ]
        return min(tried, key=lambda one: one.step)

    @property
    def winner(self) -> tuple[bool, str, str]:
        """What `hpml.publish.conclude` takes: the setting with the quickest step."""
        one, all_cores, *_ = self.trials
        gain = one.step / self.best.step
        seen = f"The quickest step has `{self.best.setting}`: {1e3 * self.best.step:.0f} ms"
        if self.best is not all_cores:
            both = [run.step for run in (all_cores, self.again) if run]
            times = " and ".join(f"{1e3 * step:.0f} ms" for step in both)
            seen += f". `{all_cores.setting}` alone has {times}"
            if len(both) == 2:
                seen += " in two runs"
            if len(both) == 2 and min(both) - self.best.step <= max(both) - min(both):
                seen += ", which differ as much: here the number of threads is what counts"
        sentence = f"**Answer.** {seen}. That is {gain:.1f} times as fast as with one thread."
        held = CLEAR < gain < TOO_GOOD * self.cores
        otherwise = (
            f"{seen}. That would be {gain:.2f} times as fast as one thread, on {self.cores} cores: "
            "other programs use them too."
        )
        return held, sentence, otherwise

    @property
    def too_many(self) -> tuple[bool, str, str]:
        """For `conclude`: two threads asked for on each core, and how many there are then."""
        _, _, asked, forced, *_ = self.trials
        seen = f"`{asked.setting}` gives PyTorch {asked.threads} threads on {self.cores} cores"
        if asked.threads < forced.threads:
            seen += ": it takes the number from MKL, which has no more than cores unless told so"
        seen += f". `{forced.setting}` gives {forced.threads}"
        sentence = f"**Answer.** {seen}, which take turns on the cores."
        return forced.threads > self.cores, sentence, f"{seen}: no more than there are cores."

    @property
    def runtime(self) -> tuple[bool, str, str]:
        """What `hpml.publish.conclude` takes: which OpenMP library it is, and what that reads."""
        names = " and ".join(f"`{Path(path).name}`" for path in self.libraries) or "no library"
        read, unknown = (
            ", ".join(f"`{name}`" for name, there in self.known.items() if there == wanted)
            for wanted in (True, False)
        )
        sentence = f"PyTorch's OpenMP is {names} here. It contains the names {read}"
        sentence += f", and not {unknown}: setting these has no effect." if unknown else "."
        held = bool(self.libraries) and self.known["OMP_NUM_THREADS"]
        return held, sentence, f"OpenMP libraries: {names}."


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
