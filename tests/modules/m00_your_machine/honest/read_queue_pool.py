# %%answer read_queue
# unusual: a pool of processes reads the jobs, the texts go through temporary files and pathlib
import os
import tempfile
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path


def seconds(elapsed):
    days, _, rest = elapsed.rpartition("-")
    total = int(days or 0) * 24
    for part, base in zip(rest.split(":"), (1, 60, 60)):
        total = total * base + int(part)
    return total


def job(line):
    name, _, state, _, nodes, elapsed = line.split("|")
    ended = "." not in name and state not in ("RUNNING", "PENDING")
    bad = ended and "_" in name and state in ("FAILED", "TIMEOUT", "OUT_OF_MEMORY", "NODE_FAIL")
    return ended * int(nodes) * seconds(elapsed), [name] * bad


def read_queue(squeue, sacct, user):
    with tempfile.TemporaryDirectory() as folder:
        for name, text in {"squeue": squeue, "sacct": sacct}.items():
            (Path(folder) / name).write_text(text)
        waiting = {}
        with open(os.path.join(folder, "squeue")) as lines:
            next(lines)
            for line in lines:
                words = line.split()
                if words[3] == user[:8] and words[4] == "PD":
                    waiting[words[0]] = line[line.index("(") + 1 : line.rindex(")")]
        with ProcessPoolExecutor(max_workers=2) as pool:
            jobs = list(pool.map(job, Path(folder, "sacct").read_text().splitlines()[1:]))
    used, failed = zip(*jobs)
    return {"waiting": waiting, "node_hours": sum(used) / 3600, "failed": sum(failed, [])}
