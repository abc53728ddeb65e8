# %%answer hello_ranks
# row: 14
# tries: recurses for ever, with the limit lifted
# unprotected: a process crashes: the grader's, where it runs there
# expect: 0
import sys

sys.setrecursionlimit(10**9)


def hello(number):
    return hello(number)
