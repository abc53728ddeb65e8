# %%answer hello_ranks
# tries: rank 1 never enters the collective
# unprotected: the others wait until the collective's own limit, half an hour
# on: solution
import threading

right = hello


def hello(number):
    if dist.get_rank() == 1:
        threading.Event().wait()
    return right(number)
