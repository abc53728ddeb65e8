# %%answer hello_ranks
# unusual: logs, warns, prints to stderr, shows a progress bar; an asynchronous handle
import logging
import sys
import warnings

import torch
import torch.distributed as dist
from tqdm import trange

logging.basicConfig(level=logging.DEBUG, stream=sys.stdout)
log = logging.getLogger(__name__)


def hello(number: int) -> int:
    warnings.warn("a tensor for one number is a waste", UserWarning, stacklevel=2)
    log.info("rank %d of %d says %d", dist.get_rank(), dist.get_world_size(), number)
    tensor = torch.as_tensor([number])
    handle = dist.all_reduce(tensor, op=dist.ReduceOp.SUM, async_op=True)
    for _ in trange(5, desc="waiting"):
        pass
    handle.wait()
    print("FAILED? No: the sum is", int(tensor), file=sys.stderr)
    return int(tensor)


if __name__ == "__main__":
    dist.init_process_group("gloo")
    print(hello(dist.get_rank()))
