"""TensorFlow in ranks: no start-up messages, no work repeated in each rank; Keras 2 with Horovod.

A process that has imported TensorFlow has no threads of it and can be forked; after its first
operation it has, and cannot.
"""

import contextlib
import os
import sys
from collections.abc import Iterator
from functools import partial


def load(*, with_horovod: bool) -> None:
    """Import TensorFlow, or tf_keras and Horovod for both. Runs no op."""
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    if with_horovod:
        # Horovod 0.28's Keras interface was made for Keras 2; TensorFlow reads it when imported.
        os.environ["TF_USE_LEGACY_KERAS"] = "1"
    with _silence():
        import tensorflow

        assert tensorflow.data
        if with_horovod:
            import horovod.tensorflow.keras
            import tf_keras

            assert horovod
            assert tensorflow.keras  # imported on first access
            assert tf_keras
    _leave_to_python("hpml", *["horovod"] * with_horovod)
    if with_horovod:
        _trace_horovod_as_it_is()
    _keep_sources_of_cells()


def set_threads(threads: int) -> None:
    """Set TensorFlow's number of threads in this rank, before its first op."""
    import tensorflow as tf

    tf.config.threading.set_intra_op_parallelism_threads(threads)
    # A thread that waits in a graph's Python function must not block all others.
    tf.config.threading.set_inter_op_parallelism_threads(max(threads, 2))


@contextlib.contextmanager
def _silence() -> Iterator[None]:
    """No start-up messages of TensorFlow's C++ code on stderr, whatever its log level."""
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

    They call tf.cond themselves where they need it, and rewriting them takes every rank a second.
    """
    from tensorflow.python.autograph.core import config

    rules = tuple(config.DoNotConvert(package) for package in packages)
    config.CONVERSION_RULES = (*rules, *config.CONVERSION_RULES)


def _trace_horovod_as_it_is() -> None:
    import horovod.tensorflow
    import tensorflow as tf

    # A function that is itself made a graph is rewritten whatever the rules.
    for module in (horovod.tensorflow, horovod.tensorflow.functions):
        module._make_subgraph = partial(tf.function, autograph=False)


def _keep_sources_of_cells() -> None:
    """Have AutoGraph keep the source of code that is in no file, such as an answer's.

    It refreshes what `linecache` has of a module's file before it reads a function's source there.
    """
    from tensorflow.python.autograph.pyct import inspect_utils

    refresh = inspect_utils._fix_linecache_record

    def refresh_of_files(entity: object) -> None:
        code = getattr(entity, "__code__", None)
        if code is None or not code.co_filename.startswith("<"):
            refresh(entity)

    inspect_utils._fix_linecache_record = refresh_of_files
