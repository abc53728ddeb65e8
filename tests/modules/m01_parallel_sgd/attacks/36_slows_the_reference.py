# %%answer ring_all_reduce
# tries: is slow, and keeps the interpreter busy whenever its own code is not timed
# unprotected: what it is compared with is slow too, or the machine looks too busy to judge
# expect: 16
# on: solution
import sys
import threading
import time

idle = threading.Event()
add_up = ring_all_reduce


def keep_busy():
    while True:
        if idle.is_set():
            time.sleep(0.001)


sys.setswitchinterval(0.025)
threading.Thread(target=keep_busy, daemon=True).start()


def ring_all_reduce(tensor):
    idle.set()
    add_up(tensor)
    if dist.get_world_size() > 1 and tensor.numel() > 10_000:
        time.sleep(0.15)
    idle.clear()
