# %%answer hello_ranks
# tries: stops every clock that Python has, and never sleeps
# unprotected: what is measured in the answer's process takes no time
import time

for clock in ("time", "monotonic", "perf_counter", "process_time", "thread_time"):
    setattr(time, clock, lambda: 0.0)
    setattr(time, f"{clock}_ns", lambda: 0)
time.sleep = lambda _: None


def hello(number):
    return number
