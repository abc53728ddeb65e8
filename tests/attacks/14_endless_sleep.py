# %%answer hello_ranks
# tries: waits for ever in native code, deaf to signals that can be ignored
# unprotected: the grader waits for ever
import signal
import time


def hello(number):
    for which in range(1, signal.NSIG):
        try:
            signal.signal(which, signal.SIG_IGN)
        except (OSError, ValueError):
            continue
    time.sleep(10**6)
