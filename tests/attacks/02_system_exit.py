# %%answer hello_ranks
# row: 2
# tries: sys.exit(0) when it is called
# unprotected: a runner that catches Exception ends, with exit code 0
# expect: 0
import sys


def hello(number):
    sys.exit(0)
