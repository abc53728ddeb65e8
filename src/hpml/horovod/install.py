"""Install Horovod into this environment: from the cache, or built; verified in both cases."""

import contextlib
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from hpml.errors import UserError
from hpml.horovod import ABOUT, VERSION, cache, command, state
from hpml.horovod.build import build
from hpml.horovod.flavour import Flavour, detect
from hpml.horovod.progress import Progress
from hpml.horovod.verify import check_starts, verify
from hpml.paths import home

INTERRUPTED = "its build was interrupted: ./hpml horovod builds it"
_LIMIT = 300.0  # seconds for pip to install a wheel


def ensure(progress: Progress, anew: bool = False) -> state.State:
    """Install and verify the Horovod of this environment's flavour; returns its state.

    Does nothing if it is installed already; with `anew` it is built all the same, even if the cache
    has it. What is missing is reported on `progress`. If there is no Horovod, the reason is
    recorded, so that nobody has to try again to learn it.
    """
    flavour, missing = detect()
    known = state.read()
    if flavour is None:
        for lack in missing:
            progress.report(f"Horovod: {lack}")
        return _without("; ".join(missing))
    if known.works and known.key == flavour.key and not anew:
        return known
    log = home() / "horovod.log"
    log.write_bytes(b"")
    if not known.works:
        state.write(state.State(reason=INTERRUPTED))
    for note in flavour.notes:
        progress.report(f"Horovod: {note}")
    try:
        with _locked_cache(progress):
            shortfalls = None if anew else _from_cache(flavour, log, progress)
            if shortfalls is None:
                shortfalls = _build(flavour, log, progress)
    except (UserError, OSError) as error:
        reason = str(error).removeprefix("horovod: ")
        if known.works:
            progress.report(f"Horovod: {reason}")
            if state.read().works:  # a build that failed is not proposed again
                state.write(replace(known, mpicxx=_mpicxx()))
        return _without(reason)
    notes = (*flavour.notes, *shortfalls)
    built = state.State(flavour.key, flavour.transports, flavour.frameworks, notes, "", _mpicxx())
    state.write(built)
    return state.read()


def _mpicxx() -> str:
    return shutil.which("mpicxx") or ""


@contextlib.contextmanager
def _locked_cache(progress: Progress) -> Iterator[None]:
    """Lock the cache; where it cannot be written, use a temporary one."""
    started = contextlib.ExitStack()
    with started:
        try:
            started.enter_context(
                cache.locked(lambda: progress.report("waiting for another build of Horovod"))
            )
        except OSError as error:
            progress.report(f"Horovod: {cache.folder()}: {error.strerror}: its wheel is not kept")
            elsewhere = started.enter_context(tempfile.TemporaryDirectory(prefix="hpml-"))
            started.enter_context(cache.using(Path(elsewhere)))
        yield


def _from_cache(flavour: Flavour, log: Path, progress: Progress) -> list[str] | None:
    """Install the verified wheel that the cache has; None where there is none."""
    wheel = cache.find(flavour)
    if wheel is None:
        return None
    progress.report(f"installing Horovod {VERSION} from {wheel.parent}")
    _into_environment(wheel, log)
    try:
        check_starts(log)
    except UserError as error:
        progress.report(f"{error}; building it anew")
        cache.remove(flavour)
        return None
    return cache.shortfalls(flavour)


def _build(flavour: Flavour, log: Path, progress: Progress) -> list[str]:
    """Build, verify, keep, install: in this order, so that only what works is kept."""
    progress.report(
        f"building Horovod {VERSION} over {flavour.transports} for {flavour.frameworks} "
        f"(once, about {ABOUT})"
    )
    begun = time.monotonic()
    with cache.work_folder() as folder:
        wheel = build(flavour, folder, log, progress)
        progress.report(f"built after {time.monotonic() - begun:.0f} s; verifying it, two ranks")
        site = folder / "site"
        _pip(wheel, log, "--target", site)
        shortfalls = verify(flavour, log, site)
        wheel = cache.store(flavour, wheel, shortfalls)
        _into_environment(wheel, log)
    for line in shortfalls:
        progress.report(f"Horovod: {line}")
    return shortfalls


def _into_environment(wheel: Path, log: Path) -> None:
    state.write(state.State(reason=INTERRUPTED))  # the one before is being overwritten
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


def _without(reason: str) -> state.State:
    """Keep the Horovod that is installed, if it works; else record why there is none."""
    if not (before := state.read()).works:
        _uninstall()  # one that is left was built for other frameworks
        state.write(before := state.State(reason=reason))
    return before


def _uninstall() -> None:
    pip = [sys.executable, "-m", "pip", "uninstall", "--yes", "horovod"]
    with contextlib.suppress(OSError, subprocess.TimeoutExpired):
        subprocess.run(pip, capture_output=True, timeout=_LIMIT)
