"""TensorFlow as ranks have it: Keras 2, no greetings, and nothing done by each that need not be.

A process that has imported TensorFlow has no threads of it and can be forked; after its first
operation it has, and cannot.
"""

import contextlib
import os
import sys
from collections.abc import Iterator
from functools import partial


def load() -> None:
    """Import TensorFlow, tf_keras and Horovod for them. Computes nothing."""
    # Horovod 0.28's Keras interface was made for Keras 2; TensorFlow reads it when imported.
    os.environ["TF_USE_LEGACY_KERAS"] = "1"
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    with _silence():
        import horovod.tensorflow.keras
        import tensorflow
        import tf_keras

        assert horovod
        assert tensorflow.keras  # imported when it is looked at
        assert tf_keras
    _leave_to_python("horovod", "hpml")
    _keep_sources_of_cells()


def set_threads(threads: int) -> None:
    """What TensorFlow may use in this rank, which has not computed yet."""
    import tensorflow as tf

    tf.config.threading.set_intra_op_parallelism_threads(threads)
    # One that waits, in a Python function of a graph, must not keep all others from running.
    tf.config.threading.set_inter_op_parallelism_threads(max(threads, 2))


@contextlib.contextmanager
def _silence() -> Iterator[None]:
    """No greetings of TensorFlow's C++ code on stderr, whatever the level it logs at."""
    sys.stderr.flush()
    kept, nowhere = os.dup(2), os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 2)
    try:
        yield
    finally:
        sys.stderr.flush()
        os.dup2(kept, 2)
        os.close(kept)
        os.close(nowhere)


def _leave_to_python(*packages: str) -> None:
    """Have AutoGraph take the functions of `packages` as they are, and not rewrite them.

    They ask for tf.cond themselves where they need it, and to rewrite them takes every rank a
    second.
    """
    import horovod.tensorflow
    import tensorflow as tf
    from tensorflow.python.autograph.core import config

    rules = tuple(config.DoNotConvert(package) for package in packages)
    config.CONVERSION_RULES = (*rules, *config.CONVERSION_RULES)
    # What is made a graph by itself is rewritten whatever the rules.
    for module in (horovod.tensorflow, horovod.tensorflow.functions):
        module._make_subgraph = partial(tf.function, autograph=False)


def _keep_sources_of_cells() -> None:
    """Have AutoGraph not forget the source of code that is in no file, such as an answer's.

    It refreshes what `linecache` has of a module's file before it reads a function's source there.
    """
    from tensorflow.python.autograph.pyct import inspect_utils

    refresh = inspect_utils._fix_linecache_record

    def refresh_of_files(entity: object) -> None:
        code = getattr(entity, "__code__", None)
        if code is None or not code.co_filename.startswith("<"):
            refresh(entity)

    inspect_utils._fix_linecache_record = refresh_of_files
