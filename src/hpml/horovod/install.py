"""Horovod into this environment: from the cache, or built, and verified in both cases."""

import contextlib
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from hpml.errors import UserError
from hpml.horovod import ABOUT, VERSION, cache, command, state
from hpml.horovod.build import build
from hpml.horovod.flavour import Flavour, look
from hpml.horovod.progress import Progress
from hpml.horovod.verify import loads, verify
from hpml.paths import home

INTERRUPTED = "its build was interrupted: ./hpml horovod builds it"
_LIMIT = 300.0  # seconds for pip to install a wheel


def ensure(progress: Progress, anew: bool = False) -> state.State:
    """The Horovod of this environment's flavour, installed and verified; what became of it.

    Nothing is done where it is there already. With `anew` it is built even so, and even if the
    cache has it. What is lacking is said on `progress`, and why there is none is written down, so
    that whoever asks later need not try.
    """
    flavour, lacks = look()
    known = state.read()
    if flavour is None:
        for lack in lacks:
            progress.say(f"Horovod: {lack}")
        return _lacking("; ".join(lacks))
    if known.works and known.key == flavour.key and not anew:
        return known
    log = home() / "horovod.log"
    log.write_bytes(b"")
    if not known.works:
        state.write(state.State(reason=INTERRUPTED))
    for note in flavour.notes:
        progress.say(f"Horovod: {note}")
    try:
        with _cache_or_not(progress):
            less = None if anew else _from_cache(flavour, log, progress)
            if less is None:
                less = _built(flavour, log, progress)
    except (UserError, OSError) as error:
        reason = str(error).removeprefix("horovod: ")
        if known.works:
            progress.say(f"Horovod: {reason}")
        return _lacking(reason)
    notes = (*flavour.notes, *less)
    state.write(state.State(flavour.key, flavour.transports, flavour.frameworks, notes, ""))
    return state.read()


@contextlib.contextmanager
def _cache_or_not(progress: Progress):
    """Holding the lock of the cache; where it cannot be written, one for this time only."""
    started = contextlib.ExitStack()
    with started:
        try:
            started.enter_context(
                cache.locked(lambda: progress.say("waiting for another build of Horovod"))
            )
        except OSError as error:
            progress.say(f"Horovod: {cache.folder()}: {error.strerror}: its wheel is not kept")
            elsewhere = started.enter_context(tempfile.TemporaryDirectory(prefix="hpml-"))
            started.enter_context(cache.at(Path(elsewhere)))
        yield


def _from_cache(flavour: Flavour, log: Path, progress: Progress) -> list[str] | None:
    """Install the wheel that was verified when it was put there; None where there is none."""
    wheel = cache.find(flavour)
    if wheel is None:
        return None
    progress.say(f"installing Horovod {VERSION} from {wheel.parent}")
    _into_environment(wheel, log)
    try:
        loads(log)
    except UserError as error:
        progress.say(f"{error}; building it anew")
        cache.forget(flavour)
        return None
    return cache.less(flavour)


def _built(flavour: Flavour, log: Path, progress: Progress) -> list[str]:
    """Build, verify, keep, install; in this order, so that only what works gets anywhere."""
    progress.say(
        f"building Horovod {VERSION} over {flavour.transports} for {flavour.frameworks} "
        f"(once, about {ABOUT})"
    )
    begun = time.monotonic()
    with cache.work_folder() as folder:
        wheel = build(flavour, folder, log, progress)
        progress.say(f"built after {time.monotonic() - begun:.0f} s; verifying it, two ranks")
        site = folder / "site"
        _pip(wheel, log, "--target", site)
        less = verify(flavour, log, site)
        wheel = cache.put(flavour, wheel, less)
        _into_environment(wheel, log)
    for line in less:
        progress.say(f"Horovod: {line}")
    return less


def _into_environment(wheel: Path, log: Path) -> None:
    state.write(state.State(reason=INTERRUPTED))  # from here on, what was there works no more
    _pip(wheel, log)


def _pip(wheel: Path, log: Path, *where: str | Path) -> None:
    options = ["--no-deps", "--no-index", "--force-reinstall", "--no-input", *where]
    pip = [sys.executable, "-m", "pip", "install", "--disable-pip-version-check", *options, wheel]
    try:
        status = command.run(pip, limit=_LIMIT, log=log)
    except TimeoutError as error:
        raise UserError(f"horovod: pip install: {error}: see {log}") from None
    if status:
        raise UserError(f"horovod: pip install exits {status}: see {log}")


def _lacking(reason: str) -> state.State:
    """The one that was there, where it still works; else none, and why."""
    if not (before := state.read()).works:
        _uninstall()  # it was built for other frameworks than there are now, if for any
        state.write(before := state.State(reason=reason))
    return before


def _uninstall() -> None:
    pip = [sys.executable, "-m", "pip", "uninstall", "--yes", "horovod"]
    with contextlib.suppress(OSError, subprocess.TimeoutExpired):
        subprocess.run(pip, capture_output=True, timeout=_LIMIT)
