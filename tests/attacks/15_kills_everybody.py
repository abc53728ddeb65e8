# %%answer hello_ranks
# row: 15
# tries: kills every process that it may
# unprotected: the grader, or other people's answers, are among them
# expect: 0
import os
import signal


def hello(number):
    os.kill(-1, signal.SIGKILL)
    return number
