"""What the lecture concludes of frameworks that let communication in at different places.

Each function returns what `hpml.publish.conclude` takes. The training is `small_training`'s.
"""

from collections.abc import Mapping, Sequence

from torch import Tensor

from hpml.modules.m04_frameworks.lecture.small_training import in_one_process, loss_of

Finding = tuple[bool, str, str]
EQUAL = 1e-12  # float64, after a few dozen steps


def gap(on_ranks: Sequence[Tensor], steps: int) -> float:
    """The largest difference of any rank's weights from those of one process with all batches."""
    expected = in_one_process(len(on_ranks), steps)
    return max((one - expected).abs().max().item() for one in on_ranks)


def as_one_process(on_ranks: Sequence[Tensor], steps: int) -> Finding:
    """Whether the ranks' weights are those of one process, but for rounding (float64)."""
    apart = gap(on_ranks, steps)
    seen = f"After {steps} steps a weight differs from that of one process by {apart:.0e} at most"
    return (
        apart < EQUAL,
        f"**Answer.** {seen}: rounding.",
        f"{seen}, more than rounding explains: the ranks have trained something else.",
    )


def in_the_middle(nodes: Sequence[str], on_ranks: Sequence[Tensor], steps: int) -> Finding:
    """Where in a graph of backward, by its nodes' names, the nodes `mean_of_ranks` stand."""
    places = [place for place, name in enumerate(nodes) if name.startswith("mean_of_ranks")]
    held, apart = False, gap(on_ranks, steps)
    computing = [name for name in nodes if name.startswith(("mm", "sum", "tanh_backward"))]
    if places and computing:
        behind = [name for name in nodes[places[0] :] if name in computing]
        held = len(places) == 4 and bool(behind) and apart < EQUAL
        seen = (
            f"Of {len(nodes)} nodes, the {len(places)} all-reduces are numbers "
            f"{', '.join(str(place + 1) for place in places)}. Behind the first one "
            f"{len(behind)} of {len(computing)} nodes that compute are still to come"
        )
    else:
        seen = f"The graph has {len(nodes)} nodes, and {len(places)} of them are all-reduces"
    return (
        held,
        f"**Answer.** In the middle. {seen}: with an asynchronous call they could overlap. The "
        f"weights are those of one process, but for {apart:.0e}. No line of the training was "
        "changed.",
        f"{seen}, and weights differ from those of one process by {apart:.0e}: this version of "
        "PyTorch makes another graph.",
    )


def held_by_the_store(nbytes: Sequence[int], on_workers: Sequence[Tensor], steps: int) -> Finding:
    """Who holds the optimizer's state: `nbytes` by rank, the last one is the store."""
    *workers, store = nbytes
    apart = gap(on_workers, steps)
    seen = (
        f"The store holds {store:,} bytes of momentum, the workers {max(workers):,}. Weights "
        f"differ from those of one process by {apart:.0e} at most"
    )
    return (
        store > 0 and not any(workers) and apart < EQUAL,
        f"**Answer.** The store alone. {seen}: rounding. A worker needs no optimizer at all.",
        f"{seen}.",
    )


def blocks(
    on_ranks: Mapping[float, Sequence[Tensor]], messages: int, steps: int
) -> tuple[bool, str, str]:
    """Blocks of steps without and with block momentum: the ranks' weights by block momentum.

    `messages` is how many a rank sent for each; with a step at a time they are `steps`.
    """
    ranks = len(next(iter(on_ranks.values())))
    each_step = loss_of(in_one_process(ranks, steps))
    losses = {momentum: loss_of(weights[0]) for momentum, weights in on_ranks.items()}
    plain, best = losses[0.0], min(losses.values())
    alike = all(bool((one == each[0]).all()) for each in on_ranks.values() for one in each)
    named = ", ".join(
        f"{loss:.4f} with block momentum {momentum:g}"
        for momentum, loss in losses.items()
        if momentum
    )
    seen = (
        f"{messages} messages instead of {steps}. The loss in the end is {plain:.4f} with plain "
        f"averages and {named}; it is {each_step:.4f} where the ranks agree in each step"
    )
    return (
        alike and messages * 4 <= steps and each_step < best < plain / 1.5,
        f"**Answer.** {seen}. Block momentum carries the direction in which all ranks moved into "
        "the next block; plain averages begin anew.",
        f"{seen}.",
    )
