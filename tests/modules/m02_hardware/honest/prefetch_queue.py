# %%answer prefetch
# unusual: a bounded queue, a put that looks now and then, and a sentinel that is an object
import queue
import threading

END = object()


def prefetch(batches, depth):
    ready = queue.Queue(maxsize=depth)
    over = threading.Event()

    def put(item):
        while not over.is_set():
            try:
                ready.put(item, timeout=0.05)
            except queue.Full:
                continue
            return True
        return False

    def read():
        error = None
        try:
            for batch in batches:
                if not put((batch, None)):
                    return
        except BaseException as raised:
            error = raised
        put((END, error))

    thread = threading.Thread(target=read, name="reader")
    thread.start()
    try:
        while True:
            batch, error = ready.get()
            if error is not None:
                raise error
            if batch is END:
                break
            yield batch
    finally:
        over.set()
        thread.join()
