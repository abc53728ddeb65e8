"""Exercise gpipe: micro-batches through a pipeline, all forward passes first, then all backward.

`train_step(stage, inputs, targets, loss_function, shapes)`, called on each rank.
"""

from hpml.checks.contract import Check, Claim
from hpml.checks.kits.ready_made import COLLECTIVES, MESSAGES, PIPELINING, REMOTE_CALLS
from hpml.modules.m07_hybrid_parallelism.checks import _pipelined_training as training
from hpml.modules.m07_hybrid_parallelism.checks._pipelined_claims import (
    loss_is_returned,
    no_more_idle_than_the_formula,
    one_message_each_way,
    sizes,
    whole_batch,
)
from hpml.modules.m07_hybrid_parallelism.checks._pipelined_hints import HINTS
from hpml.modules.m07_hybrid_parallelism.checks._pipelined_picture import pipeline_picture_of


def inputs(seed: int, world_size: int) -> list[dict]:
    return training.inputs(seed, world_size, sizes(world_size))


CHECK = Check(
    id="gpipe",
    title="Micro-batches through a pipeline",
    names=("train_step",),
    picture=pipeline_picture_of(8),
    to_write="a rank's part of a training step",
    allowed=MESSAGES,
    not_allowed=(COLLECTIVES, PIPELINING, REMOTE_CALLS),
    inputs=inputs,
    drive=training.drive,
    expect=training.expect,
    serve=training.serve,
    claims=(
        Claim("each step is that of one process on the whole batch", 6, whole_batch),
        Claim("the last rank returns the whole batch's loss", 1, loss_is_returned),
        Claim(
            "a micro-batch is one message forward and one back",
            3,
            one_message_each_way,
            of_calls=True,
        ),
        Claim("ranks idle for (p-1)/(m+p-1) of the time", 5, no_more_idle_than_the_formula),
    ),
    hints={
        "start": "Draw it for 2 ranks and 3 micro-batches, a row for each rank. In which box of "
        "rank 1 is the first gradient computed that rank 0 needs? What does rank 0 do until then?",
        **HINTS,
        "flush": "Rank 0 waits for a micro-batch's gradient before it begins with the next one: "
        "the pipeline is empty but for one micro-batch. Which forward passes can rank 0 do before "
        "any gradient has come back?",
        "bubble": "Write down each rank's passes in their order. Which pass waits for another rank "
        "although one was ready to be computed?",
        "hang": "Who waits for whom? A blocking send returns when the other rank receives. Go "
        "through one micro-batch, then through two, and count each rank's sends and receives.",
    },
)
