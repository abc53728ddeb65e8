# %%answer hello_ranks
# tries: ignores every signal that can be ignored, in a child that holds the output open
# unprotected: a grader that sends SIGTERM, or waits for the end of the output, waits for ever
import os
import signal
import time


def hello(number):
    if os.fork() == 0:
        for which in range(1, signal.NSIG):
            try:
                signal.signal(which, signal.SIG_IGN)
            except (OSError, ValueError):
                continue
        time.sleep(600)
    return number
