"""Ranks that live on between the cells of a notebook: `%%ranks 4 --keep`, and `%ranks`.

They end with the kernel. Nothing ends them before, however long they are idle: they then take no
processor time, and what they hold is what a learner may want back.
"""

import argparse
import hashlib
import shlex
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import cloudpickle
import psutil
from IPython.core.error import UsageError

from hpml.ranks import memory_limit
from hpml.ranks.parent.staying import Staying

DEFAULT = "default"  # the name of those that are given none
STAY = "The kept ranks stay, with the variables that they have now."
NONE = "No ranks are kept: %%ranks 4 --keep does that."
GONE = "The kept ranks were stopped, and their variables are gone."

# What holds as long as they live, by its option
_SETTINGS = {
    "link": "--link",
    "memory": "--memory",
    "horovod": "--horovod",
    "tensorflow": "--tensorflow",
    "env": "--env",
    "threads": "--threads",
    "no_group": "--no-group",
    "live_tensors": "--live-tensors",
}


@dataclass
class KeptRanks:
    """The ranks of one name."""

    name: str
    options: argparse.Namespace  # of the cell that started them
    staying: Staying = field(default_factory=Staying)
    started: float = field(default_factory=time.monotonic)
    cells: int = 0  # that they have run
    made: set[str] = field(default_factory=set)  # names that these cells have set
    _sent: dict[str, bytes] = field(default_factory=dict)  # what they know of the notebook

    def news(self, names: Mapping[str, Any]) -> dict[str, Any]:
        """Those of the notebook's values that the ranks do not have: new ones, and those that have
        changed in the notebook since the ranks had them."""
        digests = {name: _digest(value) for name, value in names.items()}
        news = {name: names[name] for name in names if self._sent.get(name) != digests[name]}
        self._sent |= digests
        return news

    def came_from_here(self, name: str, value: Any) -> None:
        """The notebook has the value from the ranks, whose own goes on."""
        self._sent[name] = _digest(value)

    def check(self, options: argparse.Namespace) -> None:
        """Raises UsageError where the cell asks for other ranks than these."""
        size = self.options.world_size
        if options.world_size != size:
            raise self._others(f"are {size}, not {options.world_size}")
        for name, option in _SETTINGS.items():
            asked, have = getattr(options, name), getattr(self.options, name)
            if asked and asked != have:
                begun = f"with {option} {_words(have)}".rstrip() if have else f"without {option}"
                raise self._others(f"were started {begun}, which holds as long as they live")

    def _others(self, what: str) -> UsageError:
        return UsageError(
            f"%%ranks: the kept ranks {self.name!r} {what}: go on with them by %%ranks "
            f"{self.options.world_size} --keep {self.name}, end them by %ranks stop {self.name}, "
            "or give another name to --keep"
        )

    def __str__(self) -> str:
        size, link = self.options.world_size, self.options.link
        held = [memory for pid in self.staying.pids if (memory := _resident(pid))]
        parts = [f"{size} rank{'s' * (size != 1)}", f"link {link}" if link else "no link"]
        if len(held) < size:
            parts.append("not all alive: the next cell says which")
        if held:
            least, most = (memory_limit.words(each(held)) for each in (min, max))
            span = most if least == most else f"{least} to {most}"
            parts.append(f"{span}{' each' * (size > 1)} (RSS)")
        if self.options.memory:
            parts.append(f"limit {self.options.memory}")
        parts.append(f"started {_ago(time.monotonic() - self.started)} ago")
        return f"{self.name}: {', '.join(parts)}"


_kept: dict[str, KeptRanks] = {}


def find(name: str) -> KeptRanks | None:
    """The ranks that are kept under that name."""
    return _kept.get(name)


def update(kept: KeptRanks) -> str:
    """After a cell: keep the ranks, or forget them where they have ended. A sentence on which."""
    if kept.staying.here:
        _kept[kept.name] = kept
        return STAY
    _kept.pop(kept.name, None)
    return GONE


def kept_ranks(line: str) -> None:
    """`%ranks`: the ranks that live on after `%%ranks N --keep`. `%ranks stop` ends them, and
    `%ranks stop NAME` those of that name."""
    words = shlex.split(line)
    if not words:
        print("\n".join(map(str, _kept.values())) or NONE)
        return
    if words[0] != "stop" or len(words) > 2:
        raise UsageError(f"%ranks {line.strip()}: write %ranks, %ranks stop or %ranks stop NAME")
    for name in words[1:]:
        if name not in _kept:
            there = f"there are {', '.join(_kept)}" if _kept else "there are none"
            raise UsageError(f"%ranks stop {name}: no ranks are kept under that name: {there}")
    for name in words[1:] or list(_kept):
        _kept.pop(name).staying.stop()


def stop_all() -> None:
    for name in list(_kept):
        _kept.pop(name).staying.stop()


def _digest(value: Any) -> bytes:
    return hashlib.blake2b(cloudpickle.dumps(value)).digest()


def _resident(pid: int) -> int:
    """Bytes; 0 where the process is gone."""
    try:
        process = psutil.Process(pid)
        return 0 if process.status() == psutil.STATUS_ZOMBIE else process.memory_info().rss
    except psutil.Error:
        return 0


def _words(value: Any) -> str:
    if isinstance(value, list):
        return " --env ".join(value)
    return "" if value is True else str(value)


def _ago(seconds: float) -> str:
    """ "40 s", "12 min", "3.5 h"."""
    if seconds < 60:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 3600 else f"{seconds / 3600:.1f} h"
