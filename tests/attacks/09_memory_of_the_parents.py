# %%answer hello_ranks
# tries: reads, and writes, the memory of every process above it, and of the grader by number
# unprotected: the expected value, and whatever else is there
import contextlib
import os

FOUND = []


def hello(number):
    for pid in (int(name) for name in os.listdir("/proc") if name.isdecimal()):
        if pid == os.getpid():
            continue
        status = open(f"/proc/{pid}/stat").read().rsplit(")", 1)[1].split()
        is_rank = int(status[1]) == os.getppid()
        with contextlib.suppress(OSError):
            for line in open(f"/proc/{pid}/maps"):
                low, high = (int(part, 16) for part in line.split()[0].split("-"))
                with contextlib.suppress(OSError), open(f"/proc/{pid}/mem", "rb") as memory:
                    memory.seek(low)
                    if memory.read(16) and not is_rank:
                        FOUND.append(pid)
                    break
    if FOUND:
        raise SystemError(f"hpml-canary-read: memory of {FOUND}")
    return number
