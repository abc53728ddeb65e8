# %%answer hello_ranks
# tries: nothing: it is right, and uses processes of its own, one of which stays
# unprotected: a grader that waits for all of them waits for ever
# expect: full
# on: solution
import subprocess
import sys

right = hello


def hello(number):
    subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    return right(number)
