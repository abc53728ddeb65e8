# %%answer hello_ranks
# tries: starts threads without end
# unprotected: the machine has none left
import threading
import time


def hello(number):
    while True:
        try:
            threading.Thread(target=time.sleep, args=(60,), daemon=True).start()
        except RuntimeError:
            time.sleep(0.01)
