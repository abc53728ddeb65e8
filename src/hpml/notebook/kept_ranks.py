"""Ranks that live on between the cells of a notebook: `%%ranks 4 --keep`, and `%ranks`.

They end with the kernel. Nothing ends them before, however long they are idle: they then take no
processor time, and what they hold is what a learner may want back.
"""

import argparse
import contextlib
import hashlib
import io
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import cloudpickle
import psutil
import torch
from IPython.core.error import UsageError

from hpml.notebook.argument_types import words_of
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
    "on": "--on",
    "nodes": "--nodes",
    "gpus": "--gpus",
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
    _under_way: dict[str, bytes] = field(default_factory=dict)  # what the cell sends them

    def news(self, names: Mapping[str, Any]) -> dict[str, Any]:
        """Those of the notebook's values that the ranks do not have: new ones, and those that have
        changed in the notebook since the ranks had them."""
        now = {name: _Known.of(value) for name, value in names.items()}
        news = {name for name in names if now[name].digest != self._sent.get(name)}
        tensors = {tensor for name in news for tensor in now[name].tensors}
        # An optimizer and its model travel together, or it would step copies
        news |= {name for name in names if not tensors.isdisjoint(now[name].tensors)}
        self._under_way = {name: known.digest for name, known in now.items()}
        return {name: names[name] for name in names if name in news}

    def received(self) -> None:
        """They have what `news` has returned last."""
        self._sent |= self._under_way

    def came_from_here(self, name: str, value: Any) -> None:
        """The notebook has the value from the ranks, whose own goes on."""
        self._sent[name] = _Known.of(value).digest

    def check(self, options: argparse.Namespace) -> None:
        """Raises UsageError where the cell asks for other ranks than these."""
        size = self.options.world_size
        if options.world_size != size:
            raise self._others(f"are {size}, not {options.world_size}")
        for name, option in _SETTINGS.items():
            asked, have = getattr(options, name), getattr(self.options, name)
            have = have or (1 if name == "threads" else have)
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
        on = self.options.on
        pids = () if on else self.staying.pids
        held = [memory for pid in pids if (memory := _memory(pid)) is not None]
        parts = [f"{size} rank{'s' * (size != 1)}", f"link {link}" if link else "no link"]
        if on:
            parts.append(f"on {on}")
        elif len(held) < size:
            parts.append("not all alive: the next cell says which")
        if held:
            resident, own = zip(*held, strict=True)
            each = " each" * (size > 1)
            parts.append(f"{_span(own)}{each} ({_span(resident)} RSS, with what it shares)")
        if self.options.memory:
            parts.append(f"limit {self.options.memory}")
        parts.append(f"started {_ago(time.monotonic() - self.started)} ago")
        return f"{self.name}: {', '.join(parts)}"


_kept: dict[str, KeptRanks] = {}


def find(name: str) -> KeptRanks | None:
    """The ranks that are kept under that name."""
    return _kept.get(name)


def update(kept: KeptRanks, received: bool = True) -> str:
    """After a cell, whose names they have `received`: keep the ranks, or forget them where they
    have ended. A sentence on which."""
    if kept.staying.here:
        if received:
            kept.received()
        _kept[kept.name] = kept
        return STAY
    _kept.pop(kept.name, None)
    return GONE


def kept_ranks(line: str) -> None:
    """`%ranks`: the ranks that live on after `%%ranks N --keep`. `%ranks stop` ends them, and
    `%ranks stop NAME` those of that name."""
    words = words_of(line, "%ranks")
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


@dataclass(frozen=True)
class _Known:
    """By what a value is known again: its pickle, and which tensors are in it."""

    digest: bytes
    tensors: frozenset[int]

    @classmethod
    def of(cls, value: Any) -> "_Known":
        found: set[int] = set()

        class Pickler(cloudpickle.Pickler):
            def persistent_id(self, obj: Any) -> None:
                if isinstance(obj, torch.Tensor):
                    found.add(id(obj))

        file = io.BytesIO()
        Pickler(file).dump(value)
        return cls(hashlib.blake2b(file.getbuffer()).digest(), frozenset(found))


def _memory(pid: int) -> tuple[int, int] | None:
    """The process's resident set size, and what it shares with no other, in bytes. None where it
    is gone."""
    try:
        process = psutil.Process(pid)
        found: Any = process.memory_info()
        with contextlib.suppress(psutil.AccessDenied):  # macOS shows it to root alone
            found = process.memory_full_info()
    except psutil.Error:
        return None
    # A zombie has none
    return (found.rss, getattr(found, "uss", found.rss)) if found.rss else None


def _span(sizes: Iterable[int]) -> str:
    """ "250 MB", "250 MB to 1.2 GB"."""
    least, most = (memory_limit.words(each(sizes)) for each in (min, max))
    return least if least == most else f"{least} to {most}"


def _words(value: Any) -> str:
    if isinstance(value, list):
        return " --env ".join(value)
    return "" if value is True else str(value)


def _ago(seconds: float) -> str:
    """ "40 s", "12 min", "3.5 h"."""
    if seconds < 60:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 3600 else f"{seconds / 3600:.1f} h"
