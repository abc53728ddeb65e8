"""Exercise pack_files's files, drives and stages: a folder is packed, read, shared and damaged.

The small files are there for the packing alone: what reads has nothing but the pack.
"""

import gc
import hashlib
import json
import os
import pickle
import random
import shutil
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

from hpml.checks.contract import Stage
from hpml.checks.seeds import derived
from hpml.ranks import Kill, Reply, Server, ask

FOLDER, PACK = "files", "images.pack"
LARGE = 300_000  # bytes of some files; the others have up to SMALL
SMALL = 3_000
TAKES = 12  # samples that are read one by one, their bytes counted
PACKS = 6  # one after the other; in one of them the process is killed
OPEN, OPENED, TAKEN = "it opens the pack", "it has opened it", "it has taken samples"
HANDLED_AT = 2  # ranks: the play in which the pack is shared, damaged and packed anew
NAP = 0.001  # seconds, for another process to come in between
DAMAGES = (
    "without its last byte",
    "without its second half",
    "of which 20 bytes are left",
    "that is empty",
    "of other bytes",
    "that is a text",
)
RENAMED = "of another name"  # and whole: it is not refused

Sample = list[Any]  # name, number of bytes, their SHA-256; or one text: what it is instead


# Made in the parent


def new_files(seed: int) -> dict[str, bytes]:
    """The content by the path in the folder, "class/file", in sorted order."""
    pick = random.Random(seed)
    classes = ["ant", "blue jay", "zebra", "groß, klein", "éléphant", "猫"]
    words = ["", " copy", "  (2)", ",b", '"quoted"', "-ü", ".tar", "=;#"]
    names = {f"{pick.choice(classes)}/{pick.randrange(10**4)}{word}.png" for word in 4 * words}
    names |= {"README", "ant/empty", "blue jay/empty too", "zebra/one byte", "猫/最後.png"}
    names.add("ant hill/first.png")  # before "ant/empty", where names are compared as texts
    # What a search may leave out: folders in folders, and names that begin with a dot
    names |= {
        "zebra/2024/may/deep.png",
        "zebra/.hidden.png",
        "zebra/.later/hidden.png",
        "ant/ends with a blank ",
    }
    ordered = sorted(names)
    inner = ordered[1:-1]
    large = {*pick.sample([name for name in inner if name.endswith(".png")], 3), ordered[-1]}
    sizes = {name: LARGE + pick.randrange(1000) for name in large}
    sizes |= {"ant/empty": 0, "blue jay/empty too": 0, "zebra/one byte": 1}
    return {
        name: pick.randbytes(sizes[name] if name in sizes else pick.randint(1, SMALL))
        for name in ordered
    }


def seen(name: str, content: bytes) -> Sample:
    return [name, len(content), hashlib.sha256(content).hexdigest()]


def inputs(seed: int, world_size: int) -> dict[str, list[dict[str, Any]]]:
    """By stage, for each rank: the files that it packs, or the samples that it takes."""
    files = new_files(derived(seed, "files"))
    sizes = [len(content) for content in files.values()]
    pick = random.Random(derived(seed, "order"))
    small = [place for place, size in enumerate(sizes) if size <= SMALL]
    large = [place for place, size in enumerate(sizes) if size > SMALL]
    found: dict[str, list[dict[str, Any]]] = {}
    for stage in STAGES:
        found[stage.name] = []
        for _ in range(stage.world(world_size)):
            takes = [*pick.sample(small, TAKES - 1), pick.choice(large)]
            pick.shuffle(takes)
            packs = stage.drive in (pack_once, pack_again_and_again)
            given = {"files": files} if packs else {"takes": takes, "seed": pick.randrange(10**6)}
            found[stage.name].append(given)
    return found


def logged(ranks: Sequence[Any]) -> tuple[Sequence[Any], Server]:
    """A stage's `serve`: ranks say where they are. None opens the pack before all are about to."""
    waiting: set[int] = set()

    def serve(rank: int, request: Any) -> list[Reply]:
        if request != OPEN:
            return [Reply(rank)]
        waiting.add(rank)
        return [Reply(other) for other in waiting] if len(waiting) == len(ranks) else []

    return ranks, serve


# In a rank


def shown(item: Any) -> Sample:
    """What a sample is, in a form that is compared elsewhere."""
    if not isinstance(item, tuple | list) or len(item) != 2:
        return [f"{type(item).__name__}, no pair"]
    name, content = item
    if not isinstance(name, str) or not isinstance(content, bytes | bytearray | memoryview):
        return [f"a pair of {type(name).__name__} and {type(content).__name__}"]
    return seen(name, bytes(content))


def write_files(files: dict[str, bytes]) -> None:
    for name, content in files.items():
        path = Path(FOLDER, name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)


def pack_once(answer: ModuleType, inputs: dict[str, Any]) -> None:
    write_files(inputs["files"])
    answer.pack(FOLDER, PACK)
    shutil.rmtree(FOLDER)


def read(answer: ModuleType, inputs: dict[str, Any]) -> dict[str, Any]:
    """Open the pack, take some samples, then all of them."""
    ask(OPEN)
    packed = answer.Packed(PACK)
    ask(OPENED)
    for place in inputs["takes"]:
        if place < len(packed):
            packed[place]
    ask(TAKEN)
    return {
        "length": len(packed),
        "samples": [shown(packed[place]) for place in range(len(packed))],
    }


def share_and_damage(answer: ModuleType, inputs: dict[str, Any]) -> dict[str, Any]:
    """Read in processes that were forked, and in one that was sent a pickle; open what is none."""
    return {
        "forked": attempt(lambda: forked(answer, inputs["seed"])),
        "pickled": attempt(lambda: pickled(answer)),
        "damaged": damaged(answer, inputs["seed"]),
    }


def attempt(work: Callable[[], Any]) -> Any:
    try:
        return work()
    except Exception as error:
        return {"failed": f"{type(error).__name__}: {str(error).partition(chr(10))[0][:200]}"}


def begin(work: Callable[[], Any], closes: bool = False) -> tuple[int, int]:
    """Do `work` in a process that is forked now; returns its pid and where its result comes out.

    With `closes` that process has no file open but for its output and its result.
    """
    result, end = os.pipe()
    pid = os.fork()
    if not pid:
        try:
            if closes:
                os.closerange(3, end)
                os.closerange(end + 1, 1024)
            with os.fdopen(end, "w") as file:
                json.dump(attempt(work), file)
        finally:
            os._exit(0)
    os.close(end)
    return pid, result


def result_of(child: tuple[int, int]) -> Any:
    pid, result = child
    with os.fdopen(result) as file:
        text = file.read()
    os.waitpid(pid, 0)
    return json.loads(text or '{"failed": "the process ended early"}')


def forked(answer: ModuleType, seed: int) -> list[Any]:
    """All samples, in an order of its own, by each of two processes that share one data set."""
    packed = answer.Packed(PACK)
    order = list(range(len(packed)))

    def read_in_turn(number: int) -> dict[str, Sample]:
        places = random.Random(seed + number).sample(order, len(order))
        sys.setprofile(come_in_between)
        return {str(place): shown(packed[place]) for place in places}

    children = [begin(lambda number=number: read_in_turn(number)) for number in range(2)]
    return [result_of(child) for child in children]


def come_in_between(frame: Any, event: str, function: Any) -> None:
    """Between the moving of a file's position and the read after it, another process has time."""
    if event == "c_return" and getattr(function, "__name__", "") in ("seek", "lseek"):
        time.sleep(NAP)


def pickled(answer: ModuleType) -> dict[str, Any]:
    """Some samples of a copy that went through pickle, in a process with none of its files open."""
    packed = answer.Packed(PACK)
    last = len(packed) - 1
    data = pickle.dumps(packed)
    del packed
    gc.collect()

    def read_copy() -> dict[str, Sample]:
        copy = pickle.loads(data)
        return {str(place): shown(copy[place]) for place in (last, 0, last // 2)}

    return {"bytes": len(data), "samples": result_of(begin(read_copy, closes=True))}


def damaged(answer: ModuleType, seed: int) -> dict[str, str]:
    """By what was done to a pack, what opening it raised; "" where it was accepted."""
    whole = Path(PACK).read_bytes()
    pick = random.Random(seed)
    contents = (
        whole[:-1],
        whole[: len(whole) // 2],
        whole[:20],
        b"",
        pick.randbytes(len(whole)),
        b"name size\n" * 1000,
        whole,
    )
    found = {}
    for number, (what, content) in enumerate(zip((*DAMAGES, RENAMED), contents, strict=True)):
        path = f"other{number}.bin"
        Path(path).write_bytes(content)
        try:
            answer.Packed(path)
        except ValueError as error:
            found[what] = "named" if path in str(error) else f"unnamed: {error}"
        except Exception as error:
            kind = type(error)  # struct.error is named "error": which one is it?
            module = "" if kind.__module__ == "builtins" else f"{kind.__module__}."
            found[what] = f"{module}{kind.__name__}: {error}"
        else:
            found[what] = ""
        os.remove(path)
    return found


def pack_again_and_again(answer: ModuleType, inputs: dict[str, Any]) -> None:
    """Pack over a pack that is there; the process is killed meanwhile."""
    write_files(inputs["files"])
    for _ in range(PACKS):
        answer.pack(FOLDER, PACK)


def read_what_is_left(answer: ModuleType, inputs: dict[str, Any]) -> Any:
    def read_all() -> list[Sample]:
        packed = answer.Packed(PACK)
        return [shown(packed[place]) for place in range(len(packed))]

    return attempt(read_all)


def kill(seed: int) -> Kill:
    """At a writing that does not follow from what the rank is given."""
    return Kill(0, ".", 1 + derived(seed, "kill") % 2, file=PACK, replaced=1)


def one(world_size: int) -> int:
    return 1


def if_handled(world_size: int) -> int:
    return 1 if world_size == HANDLED_AT else 0


STAGES = (
    Stage("pack", pack_once, one, looks=True),
    Stage("read", read, serve=logged, looks=True, opens=(PACK,)),
    Stage("share", share_and_damage, if_handled, dies=True),
    Stage("killed", pack_again_and_again, if_handled, dies=True, kill=kill),
    Stage("after the kill", read_what_is_left, if_handled, dies=True),
)


def expect(inputs: dict[str, list[dict[str, Any]]], world_size: int) -> list[Sample]:
    """Every sample, in the pack's order."""
    return [seen(name, content) for name, content in inputs["pack"][0]["files"].items()]
