"""The state of Horovod in this environment: recorded once, read by doctor and set-up."""

import contextlib
import json
import sysconfig
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

from hpml.files import atomic
from hpml.horovod import VERSION
from hpml.horovod.flavour import installed

NEVER = "it was never built here"


@dataclass(frozen=True)
class State:
    """A Horovod that was verified, or the reason why there is none."""

    key: str = ""  # of its flavour; empty where there is none
    transports: str = ""
    frameworks: str = ""
    notes: tuple[str, ...] = ()  # what was left out of it, and why
    reason: str = NEVER
    mpicxx: str | None = None  # MPI's compiler when it was built; "", for ./hpml, if there was none

    @property
    def works(self) -> bool:
        return bool(self.key)

    def __str__(self) -> str:
        if not self.works:
            return self.reason
        return f"{VERSION} over {self.transports}, for {self.frameworks}"


def file() -> Path:
    """The file with the state: beside the packages, so that it goes with them."""
    return Path(sysconfig.get_path("purelib")) / "hpml.horovod.json"


def read() -> State:
    """The recorded state, corrected by what has changed since."""
    try:
        version = metadata.version("horovod")
    except metadata.PackageNotFoundError:
        version = None
    try:
        known = json.loads(file().read_text())
        state = State(**{**known, "notes": tuple(known["notes"])})
    except (OSError, ValueError, TypeError, KeyError):
        return State(
            reason=f"{version} is installed, but was never tried here" if version else NEVER
        )
    if not state.works:
        return state
    if version is None:
        return State(reason="it has been uninstalled")
    if version != VERSION:
        return State(reason=f"{version} is installed, the course is made for {VERSION}")
    if installed() != state.frameworks:
        return State(reason=f"it was built for {state.frameworks}; here is {installed()}")
    return state


def write(state: State) -> None:
    """Record the state, atomically."""
    with contextlib.suppress(OSError):  # an environment that another user owns
        atomic.write_text(file(), json.dumps(vars(state), indent=2) + "\n")
