"""Traces of one folder to what the plugin's views show, each parsed in a process of its own.

Parsing is the plugin's. Around it: a trace that cannot be read is named in one line, and does not
take the others with it; processes end with the server, however that ends.
"""

import gzip
import html
import json
import logging
import multiprocessing
import os
import signal
import sys
import warnings
from collections import defaultdict
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch_tb_profiler import consts
from torch_tb_profiler.profiler.data import DistributedRunProfileData, RunProfileData
from torch_tb_profiler.profiler.loader import RunLoader
from torch_tb_profiler.profiler.run_generator import RunGenerator
from torch_tb_profiler.run import Run

from hpml.machine.resources import usable_cores
from hpml.ranks.processes import die_with_parent
from hpml.tensorboard.trace_for_plugin import translate


@dataclass(frozen=True)
class TraceFile:
    """One rank's trace. `worker` is the file's name up to the first number; `span` counts the
    traces of that worker, from 1, or is None where names have no time in them."""

    path: Path
    worker: str
    span: int | None


def trace_files(folder: Path) -> list[TraceFile]:
    """The traces right in `folder`, by the names that the plugin goes by."""
    found = []
    times: dict[str, list[int]] = defaultdict(list)
    for path in sorted(folder.iterdir()):
        if path.is_file() and (match := consts.WORKER_PATTERN.match(path.name)):
            worker, time = match[1], match[2]
            found.append((path, worker, time and int(time[1:])))
            if time:
                times[worker].append(int(time[1:]))
    return [
        TraceFile(path, worker, time and sorted(times[worker]).index(time) + 1)
        for path, worker, time in found
    ]


def read(path: Path) -> dict[str, Any]:
    """A trace, translated. Raises ValueError where it is none, or cut off."""
    data = path.read_bytes()
    try:
        if path.suffix == ".gz":
            data = gzip.decompress(data)
        trace = json.loads(data, strict=False)
    except (EOFError, OSError, ValueError, RecursionError) as error:
        raise ValueError(f"cut off, or no JSON: {str(error).splitlines()[0]}") from error
    return translate(trace)


def profiles(trace: TraceFile) -> tuple[Any, Any] | str:
    """What the views of one rank show, and what the view of all ranks needs; or what is wrong."""
    try:
        data = RunProfileData.from_json(trace.worker, trace.span, read(trace.path))
        data.trace_file_path = str(trace.path)
        profile = RunGenerator(trace.worker, trace.span, data).generate_run_profile()
        mend_links(profile.overview)
        escape(profile.gpu_summary or [])
        return profile, DistributedRunProfileData(data)
    except ValueError as error:
        return str(error)
    except Exception as error:  # whatever the plugin makes of a strange trace
        return f"the plugin cannot read it: {type(error).__name__}: {error}"


def mend_links(overview: dict[str, Any]) -> None:
    """A comma too many in the plugin's source makes one link in its advice a tuple."""
    advice = overview["recommendations"]
    overview["recommendations"] = advice.replace("\"('", '"').replace("',)\"", '"')


def escape(summary: list[dict[str, str]]) -> None:
    """The page shows a GPU's name as HTML, and a trace may name it as it likes."""
    for line in summary:
        line["value"] = html.escape(str(line["value"]))


def _begin() -> None:
    die_with_parent()
    if not multiprocessing.parent_process().is_alive():  # it died before this process asked
        os._exit(1)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the whole process group
    logging.disable(logging.CRITICAL)  # what the plugin remarks about single events
    warnings.simplefilter("ignore")  # pandas 3, of how the plugin calls it


def pool() -> ProcessPoolExecutor:
    """Processes that parse, started when the first trace is there; as many as cores."""
    context = multiprocessing.get_context("spawn")  # this process has threads
    return ProcessPoolExecutor(max(1, int(usable_cores())), context, _begin)


class FolderLoader(RunLoader):
    """The plugin's loader of a run, with `pool` to parse in and no queue of its own."""

    def __init__(self, name: str, run_dir: str, pool: ProcessPoolExecutor) -> None:
        self.run_name, self.run_dir, self.pool = name, run_dir, pool

    def load(self) -> Run | None:
        """The run with a profile for each trace that could be read; None where none could."""
        run, distributed = (Run(self.run_name, self.run_dir) for _ in range(2))
        files = trace_files(Path(self.run_dir))
        for file, parsed in zip(files, self.pool.map(profiles, files), strict=True):
            if isinstance(parsed, str):
                print(f"{file.path}: not shown: {parsed}", file=sys.stderr, flush=True)
                continue
            run.add_profile(parsed[0])
            distributed.add_profile(parsed[1])
        if not run.profiles:
            return None
        for profile in self._process_spans(distributed):
            if profile is not None:
                run.add_profile(profile)
        return run
