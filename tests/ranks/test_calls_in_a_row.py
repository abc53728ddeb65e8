"""Many short calls, one right after the other, with tensors that nobody keeps.

Gloo's thread drops the tensors of a finished call with its queue locked, and may need the
interpreter's lock for it. The next call waits for the queue: with that lock, both would for ever.
"""

import sys

import cloudpickle

from hpml.ranks import launch

cloudpickle.register_pickle_by_value(sys.modules[__name__])


def in_a_row(calls: int) -> None:
    import torch
    import torch.distributed as dist

    into = torch.zeros(2)
    for _ in range(calls):
        parts = [torch.ones(2) for _ in range(dist.get_world_size())]
        dist.scatter(into, None if dist.get_rank() else parts, src=0)
        dist.reduce(torch.ones(3), dst=0)
    dist.barrier()


def test_gloos_thread_and_the_next_call_do_not_wait_for_each_other():
    assert launch(in_a_row, 2, inputs=[1000, 1000], timeout=60).diagnosis is None
