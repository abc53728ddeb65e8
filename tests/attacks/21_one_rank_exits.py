# %%answer hello_ranks
# tries: rank 1 leaves with exit code 0 while the others wait for it
# unprotected: the others wait for ever, or the exit code is that of success
# on: solution
import os

right = hello


def hello(number):
    if dist.get_rank() == 1:
        os._exit(0)
    return right(number)
