# %%answer hello_ranks
# row: 14
# tries: works for ever, so that something always moves
# unprotected: a grader that waits as long as something moves waits for ever
# expect: 0
import time


def hello(number):
    while True:
        time.monotonic()
