# %%answer hello_ranks
# tries: nothing: it is right, and warns, logs, prints, shows progress and leaves threads behind
# unprotected: a grader that reads stdout, or counts threads or warnings, marks it down
# expect: full
# on: solution
import logging
import sys
import threading
import time
import warnings

from tqdm import tqdm

logging.basicConfig(level=logging.DEBUG)
right = hello


def hello(number):
    warnings.warn("this is deprecated", DeprecationWarning, stacklevel=1)
    logging.getLogger("mine").error("FAILED? no, but it says so: 0 of 2 points")
    print("hello", flush=True)
    print("Traceback (most recent call last):", file=sys.stderr)
    for _ in tqdm(range(20)):
        time.sleep(0.001)
    for _ in range(3):
        threading.Thread(target=time.sleep, args=(30,), daemon=True).start()
    threading.Thread(target=time.sleep, args=(30,)).start()
    return right(number)
