"""One all-reduce in one framework, on however many ranks it is started: `two_ranks.py torch`.

Run by its path, so that a Horovod can be tried before it is installed. A rank that got the right
sum prints DONE, its number and how many there are; any other exits with an error.
"""

import sys

DONE = "all-reduce right on rank"


def torch_sum() -> tuple[list[float], int, int]:
    import horovod.torch as hvd
    import torch

    hvd.init()
    mine = torch.arange(4.0) + hvd.rank()
    total = hvd.allreduce(mine, op=hvd.Sum, name="sum").tolist()
    return total, hvd.rank(), hvd.size()


def tensorflow_sum() -> tuple[list[float], int, int]:
    import horovod.tensorflow as hvd
    import tensorflow as tf

    hvd.init()
    mine = tf.range(4, dtype=tf.float32) + hvd.rank()
    total = hvd.allreduce(mine, op=hvd.Sum, name="sum").numpy().tolist()
    return total, hvd.rank(), hvd.size()


if __name__ == "__main__":
    total, rank, size = {"torch": torch_sum, "tensorflow": tensorflow_sum}[sys.argv[1]]()
    expected = [sum(number + other for other in range(size)) for number in range(4)]
    if total != expected:
        sys.exit(f"rank {rank} of {size}: the sum is {total}, expected {expected}")
    sys.stdout.write(f"{DONE} {rank} of {size}\n")  # in one piece: ranks share the stream
