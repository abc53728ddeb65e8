"""A rank's lock holds between processes, and opens when the one that holds it ends."""

import os
import threading

from hpml.ranks.rank.fork_lock import ForkLock


def in_a_child(work) -> int:
    pid = os.fork()
    if pid == 0:
        os._exit(work())
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def test_what_is_held_is_not_had_by_a_thread_or_a_forked_process():
    lock = ForkLock()
    with lock:
        assert in_a_child(lambda: lock.acquire(blocking=False)) == 0
        tried = []
        thread = threading.Thread(target=lambda: tried.append(lock.acquire(blocking=False)))
        thread.start()
        thread.join()
        assert tried == [False]
    assert in_a_child(lambda: lock.acquire(blocking=False)) == 1


def test_it_opens_when_the_process_that_holds_it_ends():
    lock = ForkLock()
    assert in_a_child(lambda: lock.acquire()) == 1
    assert lock.acquire(blocking=False)
    lock.release()
