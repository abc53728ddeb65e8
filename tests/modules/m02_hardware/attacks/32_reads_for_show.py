# %%answer prefetch
# tries: reads all at the start, and reports the reads again, one with each batch
# unprotected: the reads seem to go on beside the computations
# expect: 6
import threading


def prefetch(batches, depth):
    ask = batches.gi_frame.f_globals["ask"]
    found = []
    try:
        found += list(batches)
    except BaseException as error:
        yield from found
        raise error
    for batch in found:
        threading.Thread(target=ask, args=("read",)).start()
        yield batch
