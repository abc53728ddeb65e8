# %%answer hello_ranks
# tries: takes message queues, semaphores and shared memory, POSIX's and System V's, till the end
# unprotected: all processes of a user, or of the machine, share the kernel's number of them
import ctypes
import time

libc = ctypes.CDLL(None, use_errno=True)
MADE, MINE = 0o1000, 0o600  # IPC_CREAT, mode
OPEN_AND_MAKE = 0o102


def hello(number):
    for key in range(1, 5000):
        made = [
            libc.msgget(key, MADE | MINE),
            libc.semget(key, 32, MADE | MINE),
            libc.shmget(key, 4096, MADE | MINE),
            libc.mq_open(b"/%d" % key, OPEN_AND_MAKE, MINE, None),
        ]
        if max(made) < 0:
            break
    time.sleep(12)
    return number
