"""What ranks do with a cell: the drive of `%%ranks`. It runs there, and nothing of it in the
notebook's own process."""

import ast
import linecache
import os
import signal
import warnings
from typing import Any

import cloudpickle


class NotReceived(Exception):
    """What the cell uses of the notebook cannot be made on a rank, which then has none of it."""


class Cells:
    """A drive that runs cells, each in the namespace that the one before has left."""

    def __init__(self) -> None:
        self._namespace: dict[str, Any] = {}

    def __call__(self, job: bytes) -> dict[str, Any]:
        """Run the cell, show its last expression, return the variables of `--out`."""
        # PyTorch reports for each profiler with a schedule that a cycle begins without the last
        # one's events, which is what a schedule is for.
        ours = ".*Profiler clears events at the end of each cycle"
        warnings.filterwarnings("ignore", message=ours)
        work, namespace = self._take_in(job), self._namespace
        source, filename = work["source"], work["filename"]
        linecache.cache[filename] = (
            len(source),
            None,
            source.splitlines(keepends=True),
            filename,
        )
        tree = ast.parse(source, filename)
        last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
        exec(compile(tree, filename, "exec"), namespace)
        if last is not None:
            value = eval(compile(ast.Expression(last.value), filename, "eval"), namespace)
            if value is not None:
                print(repr(value))
        missing = [name for name in work["out"] if name not in namespace]
        if missing:
            raise NameError(f"--out names {', '.join(missing)}, which the cell does not set")
        return {name: namespace[name] for name in work["out"]}

    def _take_in(self, job: bytes) -> dict[str, Any]:
        """The job, with its names in the namespace. An interrupt waits until they are there: the
        notebook does not send them again."""
        held: list[int] = []
        before = signal.signal(signal.SIGINT, lambda number, _: held.append(number))
        try:
            work = cloudpickle.loads(job)
        except Exception as error:
            raise NotReceived(f"{type(error).__name__}: {error}") from None
        else:
            if not self._namespace:
                size = os.environ.get("WORLD_SIZE") or os.environ["HOROVOD_SIZE"]
                self._namespace |= {
                    "__name__": "cell",
                    "rank": int(os.environ.get("RANK") or os.environ["HOROVOD_RANK"]),
                    "world_size": int(size),
                }
            self._namespace |= work["names"]
        finally:
            signal.signal(signal.SIGINT, before)
        if held:
            raise KeyboardInterrupt
        return work
