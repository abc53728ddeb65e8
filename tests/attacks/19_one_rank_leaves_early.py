# %%answer hello_ranks
# tries: rank 1 returns what it has, and never enters the collective
# unprotected: the others wait until the collective's own limit, half an hour
# on: solution
right = hello


def hello(number):
    return number if dist.get_rank() == 1 else right(number)
