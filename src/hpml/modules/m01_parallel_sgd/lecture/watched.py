"""An algorithm's run, watched: who holds what after each of its steps."""

from functools import partial

from hpml.allreduce.algorithms import schedule
from hpml.allreduce.execute import all_reduce
from hpml.ranks.evidence import Evidence
from hpml.trace.holdings import RANKS, watch_function


def watched(algorithm: str, world_size: int = RANKS, per_node: int | None = None) -> Evidence:
    """Launch `all_reduce` by that algorithm, for `hpml.trace.ring_picture.who_holds_what`.

    Raises UserError as `hpml.allreduce.schedule` does.
    """
    schedule(algorithm, world_size, per_node)  # raises here, before ranks do
    return watch_function(partial(all_reduce, algorithm=algorithm, per_node=per_node), world_size)
