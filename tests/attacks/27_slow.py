# %%answer hello_ranks
# tries: nothing: it is right, and slow within the limit
# unprotected: a grader that is impatient marks it down
# expect: full
# on: solution
import time

right = hello


def hello(number):
    time.sleep(1.5 if dist.get_rank() == 0 else 0.0)
    return right(number)
