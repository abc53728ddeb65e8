"""Exercise split_layers: a model's layers on ranks, activations forward and gradients back.

`train_step(stage, inputs, targets, loss_function, shape)`, called on each rank.
"""

from hpml.checks.contract import Check, Claim
from hpml.checks.kits.ready_made import COLLECTIVES, MESSAGES, PIPELINING, REMOTE_CALLS
from hpml.modules.m07_hybrid_parallelism.checks import _pipelined_training as training
from hpml.modules.m07_hybrid_parallelism.checks._pipelined_claims import (
    loss_is_returned,
    one_message_each_way,
    whole_batch,
)
from hpml.modules.m07_hybrid_parallelism.checks._pipelined_hints import BATCH_HINTS
from hpml.modules.m07_hybrid_parallelism.checks._pipelined_picture import pipeline_picture_of

SIZES = [[7], [4], [6]]  # samples of each step's batch


def inputs(seed: int, world_size: int) -> list[dict]:
    return training.inputs(seed, world_size, SIZES, whole=True)


CHECK = Check(
    id="split_layers",
    title="Layers on ranks",
    names=("train_step",),
    picture=pipeline_picture_of(1, whole=True),
    to_write="a rank's part of a training step",
    allowed=MESSAGES,
    not_allowed=(COLLECTIVES, PIPELINING, REMOTE_CALLS),
    inputs=inputs,
    drive=training.drive,
    expect=training.expect,
    serve=training.serve,
    claims=(
        Claim("each step is that of one process with all layers", 6, whole_batch),
        Claim("the last rank returns the loss", 1, loss_is_returned),
        Claim(
            "a batch is one message forward and one back", 3, one_message_each_way, of_calls=True
        ),
    ),
    hints={
        "start": "Take two ranks. Rank 1 has computed the loss and calls backward(): where does "
        "autograd stop, and what does rank 0 need to go on from there?",
        **BATCH_HINTS,
        "hang": "Who waits for whom? Go through the step rank by rank: what a rank waits for must "
        "be sent by somebody who is not waiting for this rank.",
    },
)
