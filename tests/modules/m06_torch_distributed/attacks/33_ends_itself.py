# %%answer checkpoint
# tries: kills itself when it is to save for the third time, before it touches the file, so that the
# old one is left as after a kill while writing; it writes in place through a new file each time
# unprotected: the claim that a kill leaves the old file holds
# expect: 5
# on: keeps_weights_alone
import signal

in_place = write


def write(path, state):
    if SAVED:
        os.kill(os.getpid(), signal.SIGKILL)
    in_place(path, state)
