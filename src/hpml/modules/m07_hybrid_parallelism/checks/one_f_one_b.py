"""Exercise one_f_one_b: a pipeline whose ranks go back as soon as they can.

`train_step(stage, inputs, targets, loss_function, shapes)`, called on each rank.
"""

from typing import Any

from hpml.checks.contract import Check, Claim, Stage
from hpml.checks.kits.ready_made import COLLECTIVES, MESSAGES, PIPELINING, REMOTE_CALLS
from hpml.checks.seeds import derived
from hpml.modules.m07_hybrid_parallelism.checks import _pipelined_training as training
from hpml.modules.m07_hybrid_parallelism.checks._pipelined_claims import (
    few_live,
    little_memory,
    loss_is_returned,
    no_more_idle_than_the_formula,
    one_message_each_way,
    sizes,
    whole_batch,
)
from hpml.modules.m07_hybrid_parallelism.checks._pipelined_hints import HINTS
from hpml.modules.m07_hybrid_parallelism.checks._pipelined_picture import pipeline_picture_of

MEMORY_AT = 2  # ranks whose memory is counted
MICRO_BATCHES = 14  # there
WIDE = 170_000  # numbers that a stage needs of each sample in backward: 4 MB of a micro-batch


def inputs(seed: int, world_size: int) -> dict[str, list[dict[str, Any]]]:
    ranks = world_size if world_size == MEMORY_AT else 0
    many = [training.micro_batches(MICRO_BATCHES)]
    return {
        "memory": training.inputs(derived(seed, "memory"), ranks, many, wide=WIDE) if ranks else [],
        "steps": training.inputs(seed, world_size, sizes(world_size)),
    }


def expect(inputs: dict[str, list[dict[str, Any]]], world_size: int) -> dict[str, Any]:
    expected = training.expect(inputs["steps"], world_size)
    if inputs["memory"]:
        expected["memory"] = training.expect(inputs["memory"], world_size)
    return expected


CHECK = Check(
    id="one_f_one_b",
    title="One forward, one backward",
    names=("train_step",),
    picture=pipeline_picture_of(8),
    to_write="a rank's part of a training step",
    allowed=MESSAGES,
    not_allowed=(COLLECTIVES, PIPELINING, REMOTE_CALLS),
    inputs=inputs,
    expect=expect,
    stages=(
        Stage(
            "memory",
            training.drive,
            world=lambda world_size: world_size if world_size == MEMORY_AT else 0,
            serve=training.serve,
            memory=True,
        ),
        Stage("steps", training.drive, serve=training.serve),  # the last: claims look at it
    ),
    claims=(
        Claim("each step is that of one process on the whole batch", 4, whole_batch),
        Claim("the last rank returns the whole batch's loss", 1, loss_is_returned),
        Claim(
            "a micro-batch is one message forward and one back",
            2,
            one_message_each_way,
            of_calls=True,
        ),
        Claim("ranks idle for (p-1)/(m+p-1) of the time", 3, no_more_idle_than_the_formula),
        Claim("rank r keeps the activations of p - r micro-batches", 3, few_live),
        Claim("its memory holds no more", 2, little_memory),
    ),
    hints={
        "start": "Draw GPipe for 3 ranks and 5 micro-batches. When rank 2 has done its first "
        "forward pass, what else could it compute at once? And what does rank 0 have to do until "
        "the first gradient arrives there?",
        **HINTS,
        "flush": "Rank 0 waits for a micro-batch's gradient before it begins with the next one. "
        "Until the first gradient is back it has time for as many forward passes as there are "
        "ranks: one for each rank behind it, and its own.",
        "bubble": "Count the forward passes with which each rank begins. The last rank goes back "
        "right after its first one; each rank before it needs one more than the rank behind.",
        "gpipe": "Here every forward pass comes before the first backward pass, as in GPipe. The "
        "last rank has the loss of its first micro-batch right away: it can go back at once, and "
        "drop those activations.",
        "warm_up": "How many micro-batches does a rank have under way before the first of them "
        "comes back? One for each rank behind it, and its own. The last rank has one.",
        "memory": "Activations stay as long as something refers to their graph: an output in a "
        "list, a loss with its graph, retain_graph=True. What is still there after backward?",
        "hang": "Read in which calls the ranks wait. If all wait in blocking sends: two neighbours "
        "send to each other, one a micro-batch forward and one a gradient back, and neither "
        "receives. A send that returns at once (isend), and is waited for later, lets both go on; "
        "keep the tensor until then. If all wait in recv: which of them has something to compute "
        "first, and how many forward passes does the rank behind it wait for? If sends return at "
        "once and are never received: each micro-batch that went forward comes back, the last ones "
        "too.",
    },
)
