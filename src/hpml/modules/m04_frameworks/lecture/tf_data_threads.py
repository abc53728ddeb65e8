"""Which of TensorFlow's thread settings a pipeline's functions follow: each tried in a process.

TensorFlow reads its settings when it runs its first operation, and keeps them.
"""

import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from hpml.errors import UserError
from hpml.machine.resources import usable_cores
from hpml.modules.m04_frameworks.lecture.tf_data_stages import course_images
from hpml.ranks import launch

IMAGES = 1_000
PARALLEL = 8  # calls that a map may have under way
CALLS, SECONDS = 40, 0.01  # of a function that waits
LIMIT = 60.0  # seconds for a process
CLEAR = 1.15  # times as fast: two processes with one setting differ by less on an idle machine
TOO_GOOD = 1.1  # times the cores: more means that other programs had a core while one was tried


@dataclass(frozen=True)
class Setting:
    """Threads within an operator, for operators side by side, and for one pipeline alone (0: it has
    none of its own); and OpenMP's.
    """

    intra: int = 1
    inter: int = 1
    private: int = 0
    omp: int = 1

    def __str__(self) -> str:
        text = f"intra_op {self.intra}, inter_op {self.inter}"
        text += f", private_threadpool_size {self.private}" * bool(self.private)
        return text + f", OMP_NUM_THREADS {self.omp}" * (self.omp > 1)


ONE = Setting()
SHARED = (ONE, replace(ONE, inter=4), replace(ONE, intra=4), replace(ONE, omp=4))
PRIVATE = (replace(ONE, private=1), replace(ONE, private=2), replace(ONE, private=4))
SETTINGS = (*SHARED, *PRIVATE)


@dataclass(frozen=True)
class Tried:
    """`at_once`: how many calls of a parallel map's function were under way at the same time, at
    most; `rate`: images per second, augmented one by one, in the quickest epoch."""

    at_once: int
    rate: float


def compare() -> dict[Setting, Tried]:
    """Each of SETTINGS in two processes, one after the other in turn: the larger of each count.

    Raises UserError where TensorFlow is missing or a process fails.
    """
    found = [{setting: _tried(setting) for setting in SETTINGS} for _ in range(2)]
    return {
        setting: Tried(
            max(one[setting].at_once for one in found), max(one[setting].rate for one in found)
        )
        for setting in SETTINGS
    }


def table(tried: Mapping[Setting, Tried]) -> str:
    """The settings, how many calls ran at once, and images per second, as lines of text."""
    width = max(len(str(setting)) for setting in tried)
    lines = [f"{'':{width}}  calls at once  images/s"]
    return "\n".join(
        lines + [f"{s!s:{width}}  {one.at_once:13}  {one.rate:8,.0f}" for s, one in tried.items()]
    )


class AtOnce(NamedTuple):
    """Calls at once with a shared pool on so many cores, and with pools of the pipeline's own. Held
    if a shared pool has a thread for each core, and no other setting counts."""

    held: bool
    shared: int
    cores: int
    own: dict[int, int]  # by private_threadpool_size


def at_once(tried: Mapping[Setting, Tried]) -> AtOnce:
    """Which setting counts, by the calls that ran at once."""
    shared = {tried[setting].at_once for setting in SHARED}
    own = {setting.private: tried[setting].at_once for setting in PRIVATE}
    cores = int(usable_cores())
    held = shared == {min(cores, PARALLEL)} and all(size == calls for size, calls in own.items())
    return AtOnce(held, tried[ONE].at_once, cores, own)


class Gain(NamedTuple):
    """The threads that make most images per second, and how many times as many as one. Held if that
    is clear, and no more than the cores allow."""

    held: bool
    threads: int
    times: float


def gain(tried: Mapping[Setting, Tried]) -> Gain:
    """What more threads are worth in images per second."""
    best = max(PRIVATE[1:], key=lambda setting: tried[setting].rate)
    ratio = tried[best].rate / tried[PRIVATE[0]].rate
    return Gain(CLEAR < ratio < TOO_GOOD * usable_cores(), best.private, ratio)


def _tried(setting: Setting) -> Tried:
    evidence = launch(
        _measure,
        1,
        inputs=[setting.__dict__],
        flavour="tensorflow",
        process_group=False,
        environment=lambda rank: {"OMP_NUM_THREADS": str(setting.omp)},
        timeout=LIMIT,
    )
    if evidence.diagnosis is not None:
        raise UserError(f"tf.data with {setting}: {evidence.diagnosis.sentence}")
    return Tried(**evidence.values[0])


def _measure(setting: Mapping[str, int]) -> dict[str, Any]:
    """In a rank, before its first operation."""
    import tensorflow as tf

    from hpml.data.tfrecord import as_written
    from hpml.frameworks.tf_augment import augment
    from hpml.measure.loading import images_per_second

    tf.config.threading.set_intra_op_parallelism_threads(setting["intra"])
    tf.config.threading.set_inter_op_parallelism_threads(setting["inter"])
    options = tf.data.Options()
    if setting["private"]:
        options.threading.private_threadpool_size = setting["private"]

    under_way, most, lock = 0, 0, threading.Lock()

    def wait(number: Any) -> Any:
        nonlocal under_way, most
        with lock:
            under_way += 1
            most = max(most, under_way)
        time.sleep(SECONDS)
        with lock:
            under_way -= 1
        return number

    def waiting(number: Any) -> Any:
        return tf.numpy_function(wait, [number], number.dtype)

    numbers = tf.data.Dataset.range(CALLS).map(waiting, num_parallel_calls=PARALLEL)
    for _ in as_written(numbers.with_options(options)):
        pass
    images = course_images(IMAGES).cache().map(augment, num_parallel_calls=PARALLEL).batch(100)
    rate = images_per_second(as_written(images.with_options(options)), epochs=4)
    return {"at_once": most, "rate": rate}
