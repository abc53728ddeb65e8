# %%answer hello_ranks
# tries: leaves daemons in sessions of their own, that wait for the next launch to read its files
# unprotected: something of the answer goes on once it is graded, and reads what comes next
import glob
import os
import time


def daemon():
    os.setsid()
    if os.fork():
        os._exit(0)
    for fd in range(3, 100):
        try:
            os.close(fd)
        except OSError:
            continue
    while True:
        for path in glob.glob("/tmp/hpml-ranks-*/work"):
            try:
                with open(f"{path}/daemon", "w") as file:
                    file.write("hpml-canary-daemon")
            except OSError:
                continue
        time.sleep(0.01)


def hello(number):
    # Only one of an earlier launch can be there already.
    if os.path.exists("daemon"):
        raise SystemError("hpml-canary-read: a daemon of an earlier launch is still there")
    time.sleep(0.1)
    if os.path.exists("daemon"):
        raise SystemError("hpml-canary-read: a daemon of an earlier launch is still there")
    if os.fork() == 0:
        daemon()
    return number
