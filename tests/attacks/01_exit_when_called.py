# %%answer hello_ranks
# tries: leaves with exit code 0 on the rank that would be found wrong
# unprotected: a grader that trusts exit codes, or rank 0 alone, sees success
import os


def hello(number):
    os._exit(0)
