"""Ways of cutting one training step among ranks: which rank computes what, and what it sends.

For a stack of linear layers of one width, the smallest network that shows the differences.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from hpml.predict.collectives import all_reduce_bytes

FLOAT = 4  # bytes


@dataclass(frozen=True)
class Network:
    """`layers` linear layers, each from `width` to `width` numbers, and a batch of `batch`."""

    layers: int
    width: int
    batch: int

    @property
    def weights(self) -> int:
        """Bytes of all weights, and of their gradients."""
        return self.layers * self.width**2 * FLOAT

    @property
    def activations(self) -> int:
        """Bytes of what goes from one layer to the next, for the whole batch."""
        return self.batch * self.width * FLOAT


@dataclass(frozen=True)
class Plan:
    """One way of cutting a step.

    `owner[i][j]` is the rank that computes row i of the batch, cut into equal rows, for column j of
    the layers, all layers' weights cut into equal columns one layer after the other. `weights` are
    the bytes of weights that a rank holds, `sent` the most bytes that a rank sends in a step,
    `idle` the share of the time in which a rank computes nothing, if sending took no time.
    `sends` names what is sent and when.
    """

    name: str
    owner: tuple[tuple[int, ...], ...]
    weights: float
    sent: float
    idle: float
    sends: str


@dataclass(frozen=True)
class Exchange:
    """What ranks of a plan send each other: an arrow in cells of `Plan.owner`, as (column, row).

    `what` is "activations" (and their gradients, on the way back) or "gradients" of the weights.
    """

    what: str
    begin: tuple[float, float]
    end: tuple[float, float]


def exchanges(plan: Plan) -> list[Exchange]:
    """Between which cells of `plan.owner` ranks have to send, one exchange for each border.

    Ranks with the same columns of the weights and different rows of the batch add up gradients.
    Ranks with the same rows pass activations on where the next layer is another's. Where a layer
    is itself cut, the outputs of every second one are added up over all its ranks (see
    `tensor_parallel`).
    """
    rows, columns = len(plan.owner), len(plan.owner[0])
    depth = columns // rows  # layers
    found = []
    for first, last in _runs([row[0] for row in plan.owner]):
        middle = (first + last) / 2
        row = plan.owner[first]
        if any(len(set(row[k * rows : (k + 1) * rows])) > 1 for k in range(depth)):
            pairs = range(0, depth, 2)
            found += [
                Exchange("activations", (k * rows, middle), (min(k + 2, depth) * rows, middle))
                for k in pairs
            ]
            continue
        found += [
            Exchange("activations", (start - rows / 3, middle), (start + rows / 3, middle))
            for start, _ in _runs(row)[1:]
        ]
    for first, last in _runs(plan.owner[0]):
        ends = _runs([row[first] for row in plan.owner])
        if len(ends) > 1:
            across = first + (last - first) / 4  # beside the ranks' numbers
            top, bottom = sum(ends[0]) / 2, sum(ends[-1]) / 2
            found.append(Exchange("gradients", (across, top), (across, bottom)))
    return found


def _runs(owners: Sequence[int]) -> list[tuple[int, int]]:
    """The ranges [first, last) of equal neighbours."""
    cuts = [k for k in range(1, len(owners)) if owners[k] != owners[k - 1]]
    return list(pairwise([0, *cuts, len(owners)]))


def data_parallel(network: Network, ranks: int) -> Plan:
    """Every rank has all layers and a share of the batch."""
    owner = tuple((rank,) * (network.layers * ranks) for rank in range(ranks))
    sent = all_reduce_bytes(ranks, network.weights)
    return Plan("data", owner, network.weights, sent, 0.0, "gradients, all-reduce, once a step")


def tensor_parallel(network: Network, ranks: int) -> Plan:
    """Every rank has a slice of each layer and the whole batch.

    Layers in pairs, the first cut by columns and the second by rows: one all-reduce of activations
    for each pair, forward, and one of their gradients, backward (Shoeybi et al. 2019, Megatron-LM,
    section 3).
    """
    owner = (tuple(range(ranks)) * network.layers,) * ranks
    all_reduces = 2 * -(-network.layers // 2)
    sent = all_reduces * all_reduce_bytes(ranks, network.activations)
    sends = "activations, all-reduce, twice per pair of layers"
    return Plan("tensor (model)", owner, network.weights / ranks, sent, 0.0, sends)


def layer_parallel(network: Network, ranks: int, micro_batches: int = 1) -> Plan:
    """Every rank has consecutive layers, a stage; activations go on to the next, gradients back.

    With `micro_batches` m the stages work on different parts of the batch at the same time, and
    idle (p-1)/(m+p-1) of the time (Huang et al. 2019, GPipe, section 2.3).

    Raises ValueError where the stages would have different numbers of layers.
    """
    if network.layers % ranks:
        raise ValueError(f"{network.layers} layers on {ranks} stages: give a divisor")
    each = network.layers // ranks
    owner = (tuple(stage for stage in range(ranks) for _ in range(each * ranks)),) * ranks
    ends = min(2, ranks - 1)  # a stage in the middle sends both ways
    idle = (ranks - 1) / (micro_batches + ranks - 1)
    name = "layers (model)" if micro_batches == 1 else f"pipeline, {micro_batches} micro-batches"
    sends = "activations forward, their gradients back, at each cut"
    return Plan(name, owner, network.weights / ranks, ends * network.activations, idle, sends)


def hybrid(network: Network, groups: int, stages: int, micro_batches: int) -> Plan:
    """`groups` pipelines of `stages` each: every pipeline has a share of the batch."""
    share = Network(network.layers, network.width, network.batch // groups)
    one = layer_parallel(share, stages, micro_batches)
    ranks, columns = groups * stages, network.layers * groups * stages
    owner = tuple(
        tuple(i * groups // ranks * stages + j * stages // columns for j in range(columns))
        for i in range(ranks)
    )
    sent = one.sent + all_reduce_bytes(groups, one.weights)
    name = f"hybrid, {groups} pipelines of {stages}"
    return Plan(name, owner, one.weights, sent, one.idle, "both, each of less")
