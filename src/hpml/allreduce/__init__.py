"""Five all-reduce algorithms as data: which rank sends which part to which rank in which step.

`schedule` returns an algorithm's steps, `all_reduce` runs them over torch.distributed's send and
recv, `replay` simulates them in one process.
"""

from hpml.allreduce.algorithms import ALGORITHMS, schedule
from hpml.allreduce.execute import all_reduce
from hpml.allreduce.replay import replay
from hpml.allreduce.transfers import Schedule, Step, Transfer

__all__ = ["ALGORITHMS", "Schedule", "Step", "Transfer", "all_reduce", "replay", "schedule"]
