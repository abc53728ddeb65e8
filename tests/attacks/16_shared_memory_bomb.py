# %%answer hello_ranks
# tries: takes memory without end that belongs to no process: files without a name
# unprotected: a limit on each process's memory does not see it
import os


def hello(number):
    kept = []
    while True:
        kept.append(os.memfd_create("x"))
        for _ in range(64):
            os.write(kept[-1], b"x" * 2**20)
