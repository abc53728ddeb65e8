"""Exercise pack_files: many small files in one, with an index, and the Dataset that reads it.

`pack(folder, target)` and `Packed(path)`, whose samples are pairs of a name and bytes. Opens and
bytes are the kernel's count. What is packed, and what is done with it: `_packed_folder.py`.

Bytes are those that system calls read. Pages of a memory map are in no such count: an answer that
copies a whole map when it is opened is not seen (docs/grading.md).
"""

from collections.abc import Sequence
from typing import Any

from hpml.answer.rules import ReadyMade
from hpml.checks.contract import CannotJudge, Check, Claim, Problem, Run, fault
from hpml.checks.kits.ready_made import ALL_ELSE
from hpml.modules.m02_hardware.checks._packed_folder import (
    DAMAGES,
    OPEN,
    OPENED,
    PACK,
    RENAMED,
    STAGES,
    TAKEN,
    Sample,
    expect,
    inputs,
)
from hpml.ranks import killing
from hpml.ranks.evidence import RankEvidence

KIB = 1024
OPENING = 64 * KIB  # bytes that opening may read: the index has 4 KiB or less
PER_SAMPLE = 16 * KIB  # bytes more than its own that a sample may take: a buffer or two
OPENS = 3  # of the pack, by each process that reads

ARCHIVES = ReadyMade("`zipfile`, `tarfile`", ("zipfile.ZipFile", "tarfile.TarFile"))


def wrong_sample(got: Sample, right: Sequence[Sample], place: int) -> Problem | None:
    """What is wrong with the sample at a place of the pack, if anything is."""
    if len(got) != 3:
        return Problem(f"sample {place} is {got[0]}", "types", "(name, content): str and bytes")
    name, size, digest = right[place]
    if got == right[place]:
        return None
    if got[0] == name:
        what = f"has {got[1]} bytes" if got[1] != size else "has other bytes than its file"
        return Problem(f"sample {place} {what}", "offset", f"{size} bytes" * (got[1] != size))
    if got in right:
        return Problem(f"sample {place} is the file {got[0]!r}", "order", repr(name))
    if got[1:] == [size, digest]:
        return Problem(f"sample {place} has its file's bytes and the name {got[0]!r}", "names")
    return Problem(f"sample {place} has the name {got[0]!r}", "names", repr(name))


def holds_all(run: Run) -> Problem | None:
    files = run.stages["pack"].files
    if files is None or PACK not in files:
        return Problem(f"pack has returned, and there is no {PACK}", "no_file")
    if others := sorted(set(files) - {PACK}):
        return Problem(f"besides {PACK}, pack left the file {others[0]!r}", "one_file")
    right = run.expected
    for value in run.stages["read"].values:
        if value["length"] != len(right):
            message = f"the pack has {value['length']} samples"
            names = {sample[0] for sample in value["samples"]}
            absent = next((f": {name!r} is missing" for name, *_ in right if name not in names), "")
            return Problem(message, "lost", f"{len(right)}, as many as there are files{absent}")
        for place, sample in enumerate(value["samples"]):
            if problem := wrong_sample(sample, right, place):
                return problem
    return None


def counts_at(rank: RankEvidence, *requests: str) -> list[Any]:
    at = {asked.request: asked.counts for asked in rank.asked if type(asked.request) is str}
    return [at.get(request) for request in requests]


def reads_what_it_needs(run: Run) -> Problem | CannotJudge | None:
    evidence = run.stages["read"]
    for rank, given in zip(evidence.ranks, run.inputs["read"], strict=True):
        counts = counts_at(rank, OPEN, OPENED, TAKEN)
        if None in counts or None in [one.read_bytes for one in counts]:
            return CannotJudge("this system does not count what a process reads")
        if counts[0].opened is not None and counts[0].opened.get(PACK):
            return Problem("the pack was opened before anybody asked for it", "all_at_start")
        before, opened, taken = (one.read_bytes for one in counts)
        if opened - before > OPENING:
            return Problem(
                f"opening the pack read {(opened - before) / KIB:.0f} KiB",
                "all_at_start",
                f"at most {OPENING // KIB} KiB: the index",
            )
        own = sum(run.expected[place][1] for place in given["takes"])
        number = len(given["takes"])
        if taken - opened > own + number * PER_SAMPLE:
            problem = Problem(
                f"{number} samples of {own / KIB:.0f} KiB together took reads of "
                f"{(taken - opened) / KIB:.0f} KiB",
                "too_much",
            )
            return holds_all(run) or problem  # other samples at these places have other sizes
    opens = [
        one.opened.get(PACK, 0)
        for rank in evidence.ranks
        for one in counts_at(rank, TAKEN)
        if one.opened is not None
    ]
    if not opens:
        return CannotJudge("this machine does not report who opens a file")
    if max(opens) > OPENS * run.world_size:
        ranks = f"{run.world_size} rank{'s' * (run.world_size > 1)}"
        return Problem(
            f"{ranks} that took {number} samples each opened the pack {max(opens)} times",
            "opens",
            f"once each, {OPENS} times at most",
        )
    return None


def wrong_in(found: Any, right: Sequence[Sample], number: int) -> Problem | None:
    """What is wrong with samples by their places, as a process reported them; there are `number`.

    Samples that are wrong for any reader (`holds_all`) have nothing to do with forks.
    """
    if "failed" in found:
        return Problem(found["failed"], "raised")
    if len(found) != number:
        return Problem(f"{len(found)} samples of {number} came back", "raised")
    for place, sample in found.items():
        if problem := wrong_sample(sample, right, int(place)):
            return problem
    return None


def shared(run: Run) -> Problem | None:
    evidence = run.stages.get("share")
    if evidence is None:
        return None
    if problem := fault(evidence):
        return problem
    (value,) = evidence.values
    found = value["pickled"]
    inner = found.get("samples", found)
    if problem := wrong_in(inner, run.expected, 3):
        seen = Problem(f"a copy that went through pickle: {problem.message}", "pickle")
        return seen if problem.hint == "raised" else holds_all(run) or seen
    if found["bytes"] > OPENING:
        size = found["bytes"] // KIB
        return Problem(f"pickled, the data set is {size} KiB", "pickle", "its path, and no content")
    processes = value["forked"]
    if isinstance(processes, list) and len(processes) != 2:
        return Problem(f"{len(processes)} of 2 forked processes reported what they read", "raised")
    for one in [processes] if isinstance(processes, dict) else processes:
        if problem := wrong_in(one, run.expected, len(run.expected)):
            seen = Problem(
                f"two forked processes read one data set at once: {problem.message}", "position"
            )
            return seen if problem.hint == "raised" else holds_all(run) or seen
    return None


def refuses(run: Run) -> Problem | None:
    evidence = run.stages.get("share")
    if evidence is None:
        return None
    if problem := fault(evidence):
        return problem
    for what in DAMAGES:
        seen = evidence.values[0]["damaged"].get(what, "nothing")
        opened = f"a file {what}" if "other" in what or "text" in what else f"a pack {what}"
        if not seen:
            cut = "without" in what
            return Problem(f"{opened} was opened as if it were whole", "cut" if cut else "foreign")
        if seen != "named":
            text = f"{opened}: opening it raised {seen}"[:200].replace(
                "raised unnamed", "raised a ValueError that does not name the file"
            )
            return Problem(text, "unclear", "a ValueError that names the file")
    if seen := evidence.values[0]["damaged"].get(RENAMED, "nothing"):
        told = "a ValueError" if seen == "named" else seen
        return Problem(f"a pack {RENAMED}: opening it raised {told}"[:200], "renamed")
    return None


def leaves_the_old_one(run: Run) -> Problem | CannotJudge | None:
    killed = run.stages.get("killed")
    if killed is None:
        return None
    if not killing.possible():
        return CannotJudge("only Linux reports when a file is written, for a kill in time")
    if killed.killed is None and not killed.broken:
        if problem := fault(killed):
            return problem
        if killed.no_kill:
            return CannotJudge(f"this machine cannot watch a folder: {killed.no_kill}")
        return Problem(
            f"pack put no file in the place of the {PACK} that was there, so that nothing could "
            "be killed while writing",
            "in_place",
        )
    if killed.broken:
        return Problem(
            f"{PACK} was not whole at every moment while pack replaced it: {killed.broken}",
            "in_place",
        )
    if problem := fault(run.stages["after the kill"]):
        return problem
    (left,) = run.stages["after the kill"].values
    if isinstance(left, dict) or left != run.expected:
        why = left["failed"] if isinstance(left, dict) else "its samples are not the files"
        seen = Problem(f"what is left after a kill cannot be read: {why}", "in_place")
        return seen if isinstance(left, dict) else holds_all(run) or seen
    return None


CHECK = Check(
    id="pack_files",
    title="Many files in one",
    names=("pack", "Packed"),
    to_write="the format, `pack` and `Packed`",
    allowed=f"{ALL_ELSE}, `struct`, `json`, `os.pread` and `mmap` among it",
    not_allowed=(ARCHIVES,),
    process_group=False,
    inputs=inputs,
    expect=expect,
    stages=STAGES,
    shared_folder=True,
    claims=(
        Claim("one file holds every file's name and bytes, in order", 4, holds_all),
        Claim("it is opened once, and a sample reads what it needs", 4, reads_what_it_needs),
        Claim("pickled and forked, it reads the same samples", 3, shared),
        Claim("what is cut off or no pack is refused when it is opened", 2, refuses),
        Claim("killed while packing, it leaves the old pack", 2, leaves_the_old_one),
    ),
    hints={
        "start": "What does a reader have to know to find sample 7 with one read, and where in the "
        "file can it find that with one more?",
        "no_file": "`target` is the finished file's name.",
        "one_file": "A pack is copied as one file: the index belongs in it, and what was written "
        "on the way has to be gone.",
        "lost": "Every file counts: in `folder` itself, in folders of folders, without a byte in "
        "it, without an ending, and with a dot at the beginning of its name.",
        "types": "packed[7] is a pair: the path within the folder, with /, and the bytes.",
        "order": "Folders list their files in any order. Sort the paths, as str, once, before "
        "anything is written.",
        "names": "A name may have blanks, commas, quotes, and letters of any language, and it "
        "begins with its folder: that is the sample's label. An index that separates fields by a "
        "character breaks when a name has that character.",
        "offset": "Where do the bytes of the first file begin? What comes before them counts: "
        "header and index, in bytes and not in characters.",
        "all_at_start": "A data set of a terabyte is opened in a moment if only its index is read. "
        "Keep the path or an open file, not the content.",
        "too_much": "A sample's place and size are in the index: read those bytes, and no others.",
        "opens": "Each open is a request to the file system's metadata server: that was the "
        "trouble with small files. Open the pack once and keep it open.",
        "position": "After a fork both processes use one open file with one position: between the "
        "seek of one and its read, the other has moved it. os.pread takes the place as an "
        "argument, a map of memory has no position, and a file opened after the fork has its own.",
        "pickle": "Workers that are spawned get the data set by pickle. An open file cannot go "
        "along, and its number means nothing elsewhere: hand on the path, and open it there. "
        "`__reduce__` or `__getstate__` say what is pickled.",
        "cut": "A copy that was interrupted looks like a pack from the front. What would you "
        "compare, when it is opened, to see that the end is missing?",
        "foreign": "Other programs write files too. Some bytes at the beginning that only a pack "
        "has tell it from them, and an empty file has none.",
        "unclear": "To find the file among thousands, you need its name in the message. Check "
        "before you parse: how many bytes came, and what they are.",
        "renamed": "A pack may have any name: what tells it from other files is in it.",
        "in_place": "Opening a file for writing empties it. Write under another name in the same "
        "folder, and give it the final name with os.replace when the last byte is written.",
        "hang": "Does a process wait for another, or read from a pipe that nobody writes to?",
    },
)
