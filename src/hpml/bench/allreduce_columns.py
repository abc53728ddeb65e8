"""All-reduce from 4 B to 256 MB, as a table of columns for each algorithm and library."""

from collections.abc import Callable, Sequence

from hpml.allreduce import curves, mpi
from hpml.allreduce.algorithms import RECURSIVE_DOUBLING
from hpml.allreduce.micro_benchmark import Times, on_this_machine, sizes, table
from hpml.allreduce.timing import LIBRARY
from hpml.bench.allreduce import worlds_of

BY_HAND = (RECURSIVE_DOUBLING, "ring", "halving-doubling")
BY_MPI = ("recursive_doubling", "ring", "rabenseifner", "default")
LONGEST = 5.0  # seconds of one all-reduce over a link, by the model; what takes longer is left out
RANKS = 4  # over a link that has no nodes


def bench(links: Sequence[str] = (), report: Callable[[str], None] = print) -> None:
    """Report a table for each algorithm: between 2 ranks of this machine, or over each of `links`.

    Over a link also by Open MPI's algorithms, where it is there. Raises UserError where a network
    is asked for that this machine cannot emulate.
    """
    if not links:
        for name, times in on_this_machine([*BY_HAND, LIBRARY], sizes()).items():
            _report(f"2 ranks of this machine, {_shown(name)}", times, 2, report)
    for text in links:
        (ranks,) = worlds_of(text, (RANKS,))
        network = curves.network(text, ranks)
        of = sizes()
        found = curves.measured(network, [*BY_HAND, LIBRARY], of, LONGEST)
        for name, times in found.items():
            _report(f"{ranks} ranks, {text}, {_shown(name)}", times, ranks, report)
        if why := mpi.missing():
            report(f"Open MPI is left out: {why}")
            continue
        short = list(found["ring"])
        for name in BY_MPI:
            taken = mpi.mpi_all_reduce_seconds(short, ranks, text, name, repeats=3, timeout=600.0)
            times = dict(zip(short, map(min, taken), strict=True))
            _report(f"{ranks} ranks, {text}, Open MPI: {name}", times, ranks, report)


def _shown(name: str) -> str:
    return "Gloo" if name == LIBRARY else f"by hand: {name}"


def _report(title: str, times: Times, ranks: int, report: Callable[[str], None]) -> None:
    report(f"{title}\n{table(times, ranks)}\n")
