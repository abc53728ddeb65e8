# %%answer hello_ranks
# tries: recurses for ever, with the limit lifted
# unprotected: a process crashes: the grader's, where it runs there
import sys

sys.setrecursionlimit(10**9)


def hello(number):
    return hello(number)
