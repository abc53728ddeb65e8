"""A launch that is ended, or whose time limit is held back, from another thread."""

import threading

import psutil
import pytest

from hpml.ranks import launch
from hpml.ranks.parent import warm
from hpml.ranks.parent.leash import Cancelled, Leash

FOR_EVER = """%%answer number
import time

def number():
    print("here", flush=True)
    x = 0
    while True:
        x += 1
"""


def number_of():
    """The drive: made here, so that it is sent by value."""
    return lambda answer: answer.number()


@pytest.fixture
def leash():
    held = Leash()
    yield held
    held.close()


def test_one_that_nobody_holds_any_more_is_closed():
    before = psutil.Process().num_fds()
    held = [Leash() for _ in range(10)]
    assert psutil.Process().num_fds() == before + 20
    held[0].close()
    del held
    assert psutil.Process().num_fds() == before


def test_a_cancelled_launch_ends_at_once_and_so_do_those_to_come(leash):
    source = FOR_EVER.replace("%%", "# ")
    with pytest.raises(Cancelled):
        launch(
            number_of(), 2, answer=source, leash=leash, on_output=lambda rank, text: leash.cancel()
        )
    supervisors = psutil.Process(warm.server().pid).children()
    _, left = psutil.wait_procs(supervisors, timeout=60)
    assert not left
    with pytest.raises(Cancelled):
        launch(number_of(), 1, answer=source, leash=leash)


def test_the_time_limit_counts_from_when_the_launch_is_alone(leash):
    found = []
    source = FOR_EVER.replace("%%", "# ")
    runs = threading.Event()

    def work():
        options = {"answer": source, "timeout": 0.5, "on_output": lambda *_: runs.set()}
        found.append(launch(number_of(), 1, leash=leash, **options).diagnosis)

    thread = threading.Thread(target=work)
    thread.start()
    assert runs.wait(60)
    thread.join(1.5)
    assert not found  # three times its limit, but it was not alone
    leash.alone()
    thread.join(60)
    assert found[0].sentence.startswith("not done after 0.5 s: rank 0 was still at work")
