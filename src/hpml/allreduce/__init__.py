"""All-reduce, written out: who sends which part to whom in which step, by any of five algorithms.

`schedule` gives an algorithm as data, `all_reduce` runs it over torch.distributed's send and recv,
`replay` follows it in one process.
"""

from hpml.allreduce.algorithms import ALGORITHMS, schedule
from hpml.allreduce.execute import all_reduce
from hpml.allreduce.replay import replay
from hpml.allreduce.transfers import Schedule, Step, Transfer

__all__ = ["ALGORITHMS", "Schedule", "Step", "Transfer", "all_reduce", "replay", "schedule"]
