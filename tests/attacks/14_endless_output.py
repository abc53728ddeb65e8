# %%answer hello_ranks
# tries: prints without end
# unprotected: the grader's memory or disk is full
import os


def hello(number):
    line = b"2 of 2 points " * 5000
    while True:
        os.write(1, line)
