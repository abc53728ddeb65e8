# %%answer hello_ranks
# row: 6
# tries: writes a pickle that runs code to every descriptor it has
# unprotected: whoever reads one with pickle runs it
# expect: 0
import os
import pickle


class Bomb:
    def __reduce__(self):
        return os.system, ("echo pwned >> ~/hpml-canary-pickle",)


def hello(number):
    for fd in range(3, 64):
        try:
            os.set_blocking(fd, False)
            os.write(fd, pickle.dumps(Bomb()))
        except OSError:
            continue
    return number
