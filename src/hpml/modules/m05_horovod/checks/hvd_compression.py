"""Exercise hvd_compression: gradients in half precision on the wire, and nowhere else.

`Half.compress(tensor) -> (tensor, context)`, `Half.decompress(tensor, context) -> tensor`, a
compressor in Horovod's sense, and `average(tensor, name) -> tensor`.
"""

import itertools
from dataclasses import replace
from types import ModuleType
from typing import Any

import torch
from torch import nn
from torch.nn import functional

from hpml.checks.budget import over_bytes
from hpml.checks.chatter import ENVIRONMENT as LONG_CYCLES
from hpml.checks.chatter import chatter
from hpml.checks.compare import difference, state_difference, state_of
from hpml.checks.contract import CannotJudge, Check, Claim, Problem, Run, Stage
from hpml.checks.kits.ready_made import ALL_ELSE, HALF_PRECISION
from hpml.checks.seeds import derived
from hpml.predict.collectives import all_reduce_bytes

LARGE = 1_000_000  # elements of the tensor whose traffic is measured
LEARNING_RATE, STEPS = 0.1, 6
ROUNDING = 2.0**-9  # of the largest element: half precision has 11 bits, and sums are rounded again
PARITY = 0.02  # of the largest weight, or of the loss
HALF = 2  # bytes
FEATURES, HIDDEN, CLASSES = 24, 1024, 5


class Net(nn.Module):
    """A perceptron, float32 (n, FEATURES) -> (n, CLASSES)."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Linear(FEATURES, HIDDEN, dtype=torch.float32)
        self.outer = nn.Linear(HIDDEN, CLASSES, dtype=torch.float32)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.outer(torch.relu(self.inner(x)))


def new_state(seed: int) -> dict[str, torch.Tensor]:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return state_of(Net())


def inputs(seed: int, world_size: int) -> dict[str, list[dict[str, Any]]]:
    """By stage, for each rank: tensors to be averaged; a net and this rank's batches."""
    draw = torch.Generator().manual_seed(seed)

    def tensors() -> dict[str, torch.Tensor]:
        return {
            "weight.grad": torch.randn(LARGE, generator=draw),
            "bias.grad": torch.randn(7, 9, generator=draw, dtype=torch.float64),
            # Each is in the range of half precision, which ends at 65504; their sum is not. No
            # partial sum is near 30 000: Gloo's float16 (gloo/types.h) compares some different
            # values there as equal, and then does not assign one to the other.
            "large.grad": 34_000 + 2_000 * torch.rand(300, generator=draw),
        }

    state = new_state(derived(seed, "weights"))
    centres = torch.randn(CLASSES, FEATURES, generator=draw)

    def batches() -> list[list[torch.Tensor]]:
        found = []
        for _ in range(STEPS):
            labels = torch.randint(0, 5, (16,), generator=draw)
            found.append([centres[labels] + torch.randn(16, FEATURES, generator=draw), labels])
        return found

    counts = torch.randint(2**20, 2**40, (11,), generator=draw)
    return {
        "averages": [
            {"stage": "averages", "tensors": tensors(), "counts": counts + rank}
            for rank in range(world_size)
        ],
        "training": [
            {"stage": "training", "state": state, "batches": batches()} for _ in range(world_size)
        ],
    }


def averages(answer: ModuleType, inputs: dict[str, Any]) -> dict[str, Any]:
    """Each tensor's mean over the ranks; whole numbers, compressed and decompressed locally."""
    means = {name: answer.average(tensor, name) for name, tensor in inputs["tensors"].items()}
    sent, context = answer.Half.compress(inputs["counts"].clone())
    weight = means.pop("weight.grad")
    mean = {
        **means,
        # Returning the whole tensor would take longer than the all-reduce
        "weight.grad": weight[::97] if isinstance(weight, torch.Tensor) else weight,
    }
    return {"means": mean, "counts": answer.Half.decompress(sent, context)}


def training(answer: ModuleType, inputs: dict[str, Any]) -> dict[str, Any]:
    """Some steps of SGD with Horovod's optimizer and the answer's compressor."""
    import horovod.torch as hvd

    net = Net()
    net.load_state_dict(inputs["state"])
    optimizer = hvd.DistributedOptimizer(
        torch.optim.SGD(net.parameters(), lr=LEARNING_RATE),
        named_parameters=net.named_parameters(),
        compression=answer.Half,
        gradient_predivide_factor=hvd.size(),
    )
    losses = []
    for x, y in inputs["batches"]:
        optimizer.zero_grad()
        loss = functional.cross_entropy(net(x), y)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return {"state": state_of(net), "losses": losses}


STAGES = (Stage("averages", averages, link="1gbit"), Stage("training", training))


def expect(inputs: dict[str, list[dict[str, Any]]], world_size: int) -> dict[str, Any]:
    """The means, in double precision; the state and each rank's last loss, uncompressed."""
    given = [rank["tensors"] for rank in inputs["averages"]]
    means = {
        name: torch.stack([tensors[name].double() for tensors in given]).mean(0)
        for name in given[0]
    }
    means["weight.grad"] = means["weight.grad"][::97]
    net = Net()
    net.load_state_dict(inputs["training"][0]["state"])
    optimizer = torch.optim.SGD(net.parameters(), lr=LEARNING_RATE)
    last: list[float] = []
    for batches in zip(*(rank["batches"] for rank in inputs["training"]), strict=True):
        optimizer.zero_grad()
        last = []
        for x, y in batches:
            loss = functional.cross_entropy(net(x), y)
            (loss / world_size).backward()
            last.append(loss.item())
        optimizer.step()
    return {"means": means, "state": state_of(net), "losses": last}


def travels_in_half(run: Run) -> Problem | None:
    """By the recorded calls: the element size of what each rank puts into collectives.

    The bytes as well: a few numbers are not the tensors, and the bits of a float32 can be seen as
    two float16.
    """
    tensors = list(run.inputs["averages"][0]["tensors"].values())
    weights = sum(parameter.numel() for parameter in Net().parameters()) * STEPS
    sizes = {  # elements, and bytes without compression
        "averages": (sum(t.numel() for t in tensors), sum(t.nbytes for t in tensors)),
        "training": (weights, weights * 4),
    }
    for stage, evidence in run.stages.items():
        for rank in evidence.ranks if run.world_size > 1 else ():
            calls = [call for call in rank.calls if "reduce" in call.operation or call.nbytes > 64]
            calls = [call for call in calls if call.operation != "hvd.init"]
            if not calls:
                return Problem(f"rank {rank.rank} sent no tensor to the others", "no_call")
            for call in calls:
                if call.dtype not in ("float16", "bfloat16"):
                    where = f" (line {call.line} of your answer)" if call.line else ""
                    return Problem(
                        f"in the stage {stage}, rank {rank.rank} sent {call.tensor or 'a tensor'} "
                        f"as {call.dtype}, {call.nbytes} bytes{where}",
                        "after_reduce",
                    )
            elements, whole = sizes[stage]
            carried = sum(call.nbytes for call in calls)
            seen = f"in the stage {stage}, rank {rank.rank} sent {carried} bytes"
            if carried < HALF * elements / 2:
                return Problem(f"{seen}: too little for all tensors", "no_call")
            if carried >= whole:
                return Problem(seen, "wire", f"{HALF * elements}; uncompressed it is {whole}")
    return None


def halves_the_wire(run: Run) -> Problem | CannotJudge | None:
    if run.world_size == 1:
        return None
    elements = sum(t.numel() for t in run.inputs["averages"][0]["tensors"].values())
    evidence = run.stages["averages"]
    bound = all_reduce_bytes(run.world_size, HALF * elements)
    for rank in evidence.ranks:
        if rank.traffic is not None and rank.traffic.sent_bytes < bound / 2:
            sent = f"rank {rank.rank} sent {rank.traffic.sent_bytes} bytes over its link"
            return Problem(f"{sent}: too little for all tensors", "no_call")
    problem = over_bytes(evidence, [bound + chatter(evidence)] * run.world_size, "wire")
    if isinstance(problem, Problem) and (found := travels_in_half(run)):
        return replace(problem, hint=found.hint)
    return problem


def means_are_right(run: Run) -> Problem | None:
    return wrong_means(run, ("weight.grad", "bias.grad"))


def large_values_survive(run: Run) -> Problem | None:
    return wrong_means(run, ("large.grad",))


def wrong_means(run: Run, names: tuple[str, ...]) -> Problem | None:
    for name, (rank, value) in itertools.product(names, enumerate(run.stages["averages"].values)):
        got, given = value["means"][name], run.inputs["averages"][rank]["tensors"][name]
        expected = run.expected["means"][name].to(given.dtype)
        if not (found := difference(got, expected, ROUNDING)):
            continue
        message = f"rank {rank}'s mean of {name} {found}"
        if not isinstance(got, torch.Tensor) or got.dtype != given.dtype:
            hint = "own_type"
        elif not torch.isfinite(got).all():
            hint = "overflow"
        elif not difference(got, expected * run.world_size, ROUNDING):
            hint = "sum"
        else:
            hint = "mean"
        return Problem(message, hint, found.expected)
    return None


def whole_numbers_are_left_alone(run: Run) -> Problem | None:
    for rank, value in enumerate(run.stages["averages"].values):
        if found := difference(value["counts"], run.inputs["averages"][rank]["counts"]):
            seen = f"an int64 tensor, compressed and decompressed on rank {rank}, {found}"
            return Problem(seen, "integers", found.expected)
    return None


def trains_as_well(run: Run) -> Problem | None:
    for rank, value in enumerate(run.stages["training"].values):
        if found := state_difference(value["state"], run.expected["state"], PARITY):
            return Problem(
                f"after {STEPS} steps, rank {rank} does not have the weights of training without "
                f"compression: {found}",
                "parity",
                found.expected,
            )
        loss, right = value["losses"][-1], run.expected["losses"][rank]
        if not abs(loss - right) <= PARITY * max(1.0, right):
            seen = f"rank {rank}'s last loss is {loss:.4f}"
            return Problem(seen, "parity", f"{right:.4f}, as without compression")
    return None


def environment(inputs: list[dict[str, Any]], rank: int, world_size: int) -> dict[str, str]:
    counted = inputs[0]["stage"] == "averages"
    return LONG_CYCLES if counted else {}


ALL_RANKS = (
    "Ranks find each other's tensors by name, type and shape: all must use the same ones, in calls "
    "that all of them make."
)

CHECK = Check(
    id="hvd_compression",
    title="Half precision on the wire",
    names=("Half", "average"),
    to_write="the compressor and the mean",
    allowed=ALL_ELSE,
    not_allowed=(HALF_PRECISION,),
    flavour="horovod",
    inputs=inputs,
    expect=expect,
    stages=STAGES,
    timeout=30.0,
    environment=environment,
    claims=(
        Claim("gradients travel in half precision", 3, travels_in_half, of_calls=True),
        Claim("the kernel counts half the bytes", 2, halves_the_wire),
        Claim("the mean comes back in its own type", 3, means_are_right),
        Claim("a mean of large values is not infinite", 2, large_values_survive),
        Claim("whole numbers stay what they are", 2, whole_numbers_are_left_alone),
        Claim("training ends where it does without compression", 3, trains_as_well),
    ),
    hints={
        "start": "What travels, and what has to be remembered until it is back? Three moments: "
        "before the reduction (compress: remember the type, make it float16), the reduction "
        "itself (of the compressed tensor), after it (decompress: back to the type that was "
        "remembered).",
        "no_call": "A mean over ranks takes a message to the other ranks: hvd.allreduce.",
        "after_reduce": "What goes into the all-reduce goes over the wire, in its own type. "
        "Rounded values in a float32 are as long as others, and a result that is rounded "
        "afterwards has travelled whole. Compress first, reduce what came out as it is, decompress "
        "last.",
        "wire": "Each rank must send 2 (p-1)/p · n of n compressed bytes; a ring sends no more. "
        "Which single collective makes the sum where it is needed?",
        "own_type": "The optimizer expects a gradient of its parameter's type: the context is "
        "there to remember it, be it float32 or float64.",
        "overflow": "Half precision ends at 65504. Each rank's value fits; the sum of them, on its "
        "way to the mean, need not. Which of the two can come first, adding or dividing? "
        "hvd.allreduce has a prescale_factor.",
        "sum": "hvd.Sum adds up. The mean is over the ranks.",
        "mean": "Follow one element: compressed, scaled, added up, decompressed. Each rank's "
        "counts as much as another's, and once.",
        "integers": "A float16 holds whole numbers up to 2048 exactly, and nothing beyond 65504. "
        "Only floating-point tensors can be compressed like this: see tensor.is_floating_point().",
        "parity": "A gradient of half the precision still points the right way. What is different "
        "here is more than rounding: does each tensor come back with its own shape, type and "
        "scale?",
        "hang": ALL_RANKS,
        "mismatch": ALL_RANKS,
    },
)
