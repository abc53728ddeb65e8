# %%answer checkpoint
# tries: a process of its own writes in place, in a session of its own: to kill rank 0 is not to
# kill the one that writes
# unprotected: whatever the kill finds is whole soon afterwards
# expect: 5
# on: keeps_weights_alone
import sys

in_place = write


def write(path, state):
    child = os.fork()
    if not child:
        os.setsid()
        in_place(path, state)
        sys.stdout.flush()
        os._exit(0)
    os.waitpid(child, 0)
