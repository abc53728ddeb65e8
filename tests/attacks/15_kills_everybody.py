# %%answer hello_ranks
# tries: kills every process that it may
# unprotected: the grader, or other people's answers, are among them
import os
import signal


def hello(number):
    os.kill(-1, signal.SIGKILL)
    return number
