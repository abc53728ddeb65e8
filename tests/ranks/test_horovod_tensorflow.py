"""Horovod under TensorFlow on warm ranks: eagerly, in graphs, under GradientTape and Keras."""

import os
import sys
from itertools import pairwise

import cloudpickle
import numpy as np
import pytest

from hpml.ranks import flavour, launch
from hpml.ranks.parent import warm

WHY = flavour.missing("horovod-tensorflow")
pytestmark = [
    pytest.mark.skipif(WHY is not None, reason=str(WHY)),
    pytest.mark.xdist_group("horovod"),
]
cloudpickle.register_pickle_by_value(sys.modules[__name__])

IMAGES = np.random.default_rng(0).normal(size=(24, 3)).astype("float32")
TARGETS = IMAGES @ np.array([[1.0], [-2.0], [0.5]], dtype="float32")
STEPS, RATE = 2, 0.1


def expected():
    """Weights after STEPS of plain gradient descent on all images, from ones."""
    weights = np.ones((3, 1))
    for _ in range(STEPS):
        weights -= RATE * 2 * IMAGES.T @ (IMAGES @ weights - TARGETS) / len(IMAGES)
    return weights


def everything(rank):
    import horovod.tensorflow as hvd
    import horovod.tensorflow.keras as keras_hvd
    import tensorflow as tf

    size = hvd.size()
    mine = slice(rank * len(IMAGES) // size, (rank + 1) * len(IMAGES) // size)
    images, targets = tf.constant(IMAGES[mine]), tf.constant(TARGETS[mine])
    summed = hvd.allreduce(tf.fill([2], float(rank)), op=hvd.Sum)

    weights = tf.Variable(tf.fill([3, 1], 1.0 + rank))
    hvd.broadcast_variables([weights], root_rank=0)

    @tf.function
    def step():
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.square(images @ weights - targets))
            if loss < 0:  # AutoGraph must find the source to make this tf.cond
                loss = -loss
        gradients = hvd.DistributedGradientTape(tape).gradient(loss, [weights])
        weights.assign_sub(RATE * gradients[0])

    for _ in range(STEPS):
        step()

    layer = tf.keras.layers.Dense(
        1, use_bias=False, kernel_initializer=tf.keras.initializers.Constant(1.0 + rank)
    )
    model = tf.keras.Sequential([layer])
    model.build((None, 3))
    optimizer = keras_hvd.DistributedOptimizer(tf.keras.optimizers.SGD(RATE))
    model.compile(optimizer, loss="mse")
    # Horovod's callback broadcasts after the first batch, when there is an optimizer's state
    hvd.broadcast_variables(model.variables, root_rank=0)
    callbacks = [
        keras_hvd.callbacks.BroadcastGlobalVariablesCallback(0),
        keras_hvd.callbacks.MetricAverageCallback(),
    ]
    told = model.fit(
        images, targets, len(images), epochs=STEPS, shuffle=False, verbose=0, callbacks=callbacks
    )
    return [
        summed,  # tensors and variables are sent as arrays
        weights,
        layer.kernel.numpy(),
        told.history["loss"],
        tf.keras.__name__,
    ]


@pytest.mark.parametrize("world_size", [1, 2, 3, 4])
def test_tape_and_keras_learn_as_one_process_would(world_size):
    ranks = range(world_size)
    evidence = launch(
        everything, world_size, inputs=[*ranks], flavour="horovod-tensorflow", timeout=90
    )
    assert evidence.diagnosis is None, evidence.diagnosis.sentence
    for summed, tape, keras, losses, module in evidence.values:
        assert summed.tolist() == [sum(ranks)] * 2
        np.testing.assert_allclose(tape, expected(), rtol=1e-4)
        np.testing.assert_allclose(keras, expected(), rtol=1e-4)
        assert losses == pytest.approx(evidence.values[0][3])
        assert module.startswith("tf_keras")
    calls = evidence.ranks[-1].calls
    assert all(call.finished is not None and call.issued <= call.finished for call in calls)
    assert (calls[0].operation, calls[0].tensor, calls[0].nbytes) == (
        "allreduce",
        "HorovodAllreduce",
        8,
    )
    broadcast = [call for call in calls if call.operation == "broadcast"]
    assert broadcast
    assert {call.detail for call in broadcast} == {"from 0"}
    # The tape's and Keras's are in graphs, and were told as these ran: in each step once.
    graphs = [call for call in calls if call.operation == "allreduce" and call.shape == (3, 1)]
    assert [(call.nbytes, call.detail) for call in graphs] == (
        [(12, "average")] * 2 * STEPS if world_size > 1 else []
    )
    assert sorted(call.sequence for call in graphs) == (
        sorted([*range(1, STEPS + 1)] * 2) if world_size > 1 else []
    )


def test_a_rank_that_never_runs_its_graph_is_told():
    answer = (
        "import tensorflow as tf, horovod.tensorflow as hvd\n"
        "@tf.function\n"
        "def mean(x):\n"
        "    return hvd.allreduce(x, name='loss')\n"
        "def go():\n"
        "    mean(tf.ones(3))\n"
        "    if hvd.rank() == 1:\n"
        "        mean(tf.ones(3))\n"
    )
    diagnosis = launch(
        lambda answer: answer.go(), 2, answer=answer, flavour="horovod-tensorflow", timeout=30
    ).diagnosis
    assert diagnosis.kind == "hang"
    assert diagnosis.ranks == (0,)
    assert diagnosis.sentence == (
        "rank 1 waits in allreduce of 'loss' (call 2, line 8 of your answer); rank 0 has left "
        "through allreduce of 'loss' (call 1, line 6 of your answer) and returned"
    )


def test_what_one_graph_submits_is_under_way_together():
    """Telling must not put the operations of a graph in a row, or nothing would be fused."""

    def drive():
        import horovod.tensorflow as hvd
        import tensorflow as tf

        @tf.function
        def means(x):
            return [hvd.allreduce(x + i, name=f"part{i}") for i in range(20)]

        for _ in range(3):
            means(tf.ones(10))

    evidence = launch(drive, 2, flavour="horovod-tensorflow", timeout=30)
    assert evidence.diagnosis is None, evidence.diagnosis.sentence
    calls = sorted(evidence.ranks[0].calls, key=lambda call: call.issued)
    assert len(calls) == 60
    assert sum(then.issued < one.finished for one, then in pairwise(calls)) >= 6


def test_what_autograph_writes_goes_with_the_ranks():
    def drive():
        import tensorflow as tf

        @tf.function
        def half(x):
            if x > 2:
                x = x / 2
            return x

        value = half(tf.constant(3.0)).numpy().item()
        written = [name for name in sys.modules if name.startswith("__autograph_generated")]
        return [value, [sys.modules[name].__file__ for name in written]]

    ((value, files),) = launch(drive, 1, flavour="horovod-tensorflow", timeout=30).values
    assert value == 1.5
    assert files
    assert not any(map(os.path.exists, files))


def test_a_server_of_a_later_flavour_serves_the_earlier_ones():
    """Horovod's two libraries, for PyTorch and for TensorFlow, get along in one process."""

    def drive():
        import horovod.torch as hvd
        import torch

        return hvd.allreduce(torch.ones(1), op=hvd.Sum).item()

    with warm.using(warm.server("horovod-tensorflow")):
        evidence = launch(drive, 2, flavour="horovod", timeout=30)
    assert evidence.values == (2.0, 2.0)
