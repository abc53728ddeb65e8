"""Exercise mesh_layout: from named dimensions and a layout, each rank's slice and the sums to make.

`slice_of(tensor, mesh, layout, rank)`, `forward_sum(inputs, output, mesh, layout)` and
`gradient_sums(inputs, output, mesh, layout)`; ValueError for what cannot be split so. What is right
is known in the package `instructors`.
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import ModuleType
from typing import Any

from hpml.checks.compare import described
from hpml.checks.contract import Check, Claim, Problem, Run
from hpml.checks.kits.drawn import Drawn
from hpml.checks.kits.ready_made import ANYTHING
from hpml.ranks import mark

PLAYS = Drawn(__package__, "mesh_layout")
NAMES = ("slice_of", "forward_sum", "gradient_sums")
SUMS = {"forward": "forward_sum", "gradients": "gradient_sums"}  # by claim
REFUSED = "refused"  # what a drive returns where the answer raised ValueError

Case = dict[str, Any]  # "inputs" and "output": a product; "mesh", "layout"


def drive(answer: ModuleType, inputs: dict[str, Any]) -> list[dict[str, Any]]:
    """Per case, what each function returns; `REFUSED` where it raised ValueError."""

    def call(function: Callable[..., Any], *arguments: Any) -> Any:
        try:
            return function(*arguments)
        except ValueError:
            return REFUSED

    found = []
    for case in inputs["cases"]:
        mesh, layout = case["mesh"], case["layout"]
        mark(f"mesh {mesh}, layout {layout}")
        tensors, ranks = [*case["inputs"], case["output"]], range(math.prod(mesh.values()))
        operands = (case["inputs"], case["output"], mesh, layout)
        found.append(
            {
                "slices": [
                    [call(answer.slice_of, tensor, mesh, layout, rank) for rank in ranks]
                    for tensor in tensors
                ],
                "forward": call(answer.forward_sum, *operands),
                "gradients": call(answer.gradient_sums, *operands),
            }
        )
    return found


# ---- the judges


def is_slice(value: Any, tensor: Mapping[str, int]) -> bool:
    return (
        isinstance(value, dict)
        and list(value) == list(tensor)
        and all(
            isinstance(ends, list | tuple)
            and len(ends) == 2
            and all(type(end) is int for end in ends)
            for ends in value.values()
        )
    )


def is_sum(value: Any) -> bool:
    return (
        isinstance(value, list | tuple)
        and len(value) == 2
        and isinstance(value[0], list | tuple)
        and all(isinstance(name, str) for name in value[0])
        and type(value[1]) is int
    )


def legal(run: Run) -> Iterator[tuple[Case, Mapping[str, Any], Any]]:
    """(case, what was returned, what is right) of each legal case."""
    given = run.inputs[0]
    for case, kind, said, right in zip(
        given["cases"], given["kinds"], run.values[0], run.expected["right"], strict=True
    ):
        if kind == "legal":
            yield case, said, right


def words(case: Case) -> str:
    """A case as a sentence has it."""
    mesh = ", ".join(f"{name}: {size}" for name, size in case["mesh"].items())
    split = ", ".join(f"{name} over {over}" for name, over in case["layout"].items())
    return f"on the mesh {{{mesh}}} with {split}"


def shown(tensor: Mapping[str, int]) -> str:
    return "[" + ", ".join(f"{name} {size}" for name, size in tensor.items()) + "]"


def bounds(one: Mapping[str, Sequence[int]]) -> str:
    """A slice as a sentence has it."""
    return ", ".join(f"{name} from {start} to {stop}" for name, (start, stop) in one.items())


def slices_are_right(run: Run) -> Problem | None:
    for case, said, right in legal(run):
        tensors = [*case["inputs"], case["output"]]
        for tensor, got, good in zip(tensors, said["slices"], right["slices"], strict=True):
            for rank, (one, due) in enumerate(zip(got, good, strict=True)):
                where = f"slice_of the tensor {shown(tensor)}, rank {rank}, {words(case)},"
                if one == REFUSED:
                    return Problem(f"{where} raised ValueError", "too_strict")
                if not is_slice(one, tensor):
                    return Problem(f"{where} is {described(one)}", "slice_types")
                if {name: tuple(ends) for name, ends in one.items()} != due:
                    return Problem(f"{where} is {bounds(one)}", slice_mistake(run), bounds(due))
    return None


def slice_mistake(run: Run) -> str:
    """The hint for the first mistake that explains every slice."""
    told = []
    for case, said, _ in legal(run):
        tensors = [*case["inputs"], case["output"]]
        found = [*zip(tensors, said["slices"], strict=True)]
        if not all(is_slice(one, tensor) for tensor, got in found for one in got):
            return "slice"
        told.append([[{n: tuple(e) for n, e in one.items()} for one in got] for _, got in found])
    mistakes = run.expected["mistakes"]["slices"]
    return next((hint for hint, wrong in mistakes if wrong == told), "slice")


def sums_problem(run: Run, claim: str) -> Problem | None:
    """Of the sums that this function returned: the product's, or those of each gradient."""
    name = SUMS[claim]
    for case, said, due in legal(run):
        right, value = due[claim], said[claim]
        if value == REFUSED:
            return Problem(f"{name} {words(case)} raised ValueError", "too_strict")
        got, about = [value], ["the product"]
        if claim == "gradients":
            if not isinstance(value, list) or len(value) != len(right):
                return Problem(f"{name} is {described(value)}", "list", f"{len(right)} sums")
            inputs = enumerate(map(shown, case["inputs"]))
            got, about = value, [f"the gradient of input {place}, {one}" for place, one in inputs]
        for one, (over, nbytes), what in zip(got, right, about, strict=True):
            where = f"{name} of {what} {words(case)}"
            if not is_sum(one):
                return Problem(f"{where} is {described(one)}", "sum_types")
            if set(one[0]) != set(over) or len(one[0]) != len(over) or one[1] != nbytes:
                seen = f"{where} is {(list(one[0]), one[1])}"
                return Problem(seen, sum_mistake(run, claim), f"{(over, nbytes)}")
    return None


def sum_mistake(run: Run, claim: str) -> str:
    """The hint for the first mistake that explains every sum."""
    told = [said[claim] for _, said, _ in legal(run)]
    told = [[one] for one in told] if claim == "forward" else told
    if not all(isinstance(got, list) and all(map(is_sum, got)) for got in told):
        return "sum"
    mistakes = run.expected["mistakes"][claim]
    return next((hint for hint, wrong in mistakes if unordered(wrong) == unordered(told)), "sum")


def unordered(cases: Sequence[Any]) -> list[list[tuple[set[str], int]]]:
    return [[(set(over), nbytes) for over, nbytes in sums] for sums in cases]


def forward_is_right(run: Run) -> Problem | None:
    return sums_problem(run, "forward")


def gradients_are_right(run: Run) -> Problem | None:
    return sums_problem(run, "gradients")


def illegal_is_refused(run: Run) -> Problem | None:
    given, accepted = run.inputs[0], {}
    for case, said, due in zip(given["cases"], run.values[0], run.expected["right"], strict=True):
        hint = due.get("hint")
        if hint and (seen := accepted_by(case, said, due)):
            accepted.setdefault(hint, Problem(f"{seen} returned a value", hint))
    for hint in ("same_tensor", "divide", "operation"):  # the plainest first
        if hint in accepted:
            return accepted[hint]
    # An answer that refuses everything has understood nothing.
    strict = (judge(run) for judge in (slices_are_right, forward_is_right))
    return next((problem for problem in strict if problem and problem.hint == "too_strict"), None)


def accepted_by(case: Case, said: Mapping[str, Any], due: Mapping[str, Any]) -> str | None:
    """The first call that returned a value for what cannot be, as a sentence has it."""
    for claim, name in SUMS.items():
        if said[claim] != REFUSED:
            return f"{name} {words(case)}"
    for at in due["tensors"]:  # those that cannot be split so by themselves
        tensor = [*case["inputs"], case["output"]][at]
        for rank, one in enumerate(said["slices"][at]):
            if one != REFUSED:
                return f"slice_of the tensor {shown(tensor)}, rank {rank}, {words(case)}"
    return None


CHECK = Check(
    id="mesh_layout",
    title="Names, a mesh, and what follows",
    names=NAMES,
    to_write="each rank's slice, and the sums that follow",
    allowed=ANYTHING,
    worlds=(1,),
    process_group=False,
    inputs=PLAYS.inputs,
    drive=drive,
    expect=PLAYS.expect,
    claims=(
        Claim("every rank has its slice of each tensor", 3, slices_are_right),
        Claim("a product is summed where what it sums over is split", 3, forward_is_right),
        Claim("so are the gradients of its inputs", 2, gradients_are_right),
        Claim("a layout that cannot be is refused", 2, illegal_is_refused),
    ),
    hints={
        "start": "Take one tensor [batch, hidden] on four ranks, rows × columns = 2 × 2. Draw it "
        "with the layout {batch: rows}: which ranks have the same half?",
        "slice": "A dimension that the layout does not name is whole on every rank. One that it "
        "names is cut into as many equal parts as that dimension of the mesh has ranks.",
        "order": "The last dimension of the mesh changes fastest: on {rows: 2, columns: 3} rank 1 "
        "is row 0, column 1. Which place has rank 3?",
        "rank_itself": "A rank has one coordinate for each dimension of the mesh: rank 3 of 2 × 3 "
        "is in row 1 and column 0. Which of the two coordinates picks the part?",
        "lengths": "The second number is where the slice ends, not how long it is: (6, 12).",
        "inclusive": "The second number is the first index that the rank does not have, as in "
        "Python's slices.",
        "slice_types": "slice_of returns a dict: for each dimension of the tensor, in its order, a "
        "pair of whole numbers.",
        "sum": "Write down what one rank computes from its slices. What is missing in it: nothing, "
        "or the products that other ranks have?",
        "forgotten": "Two ranks each have half of a dimension that is summed over. Each gets a "
        "number for every element of the result; whose is right?",
        "kept": "Where a split dimension is still in the result, each rank has its own slice of "
        "the result, complete. Which dimensions make the result incomplete?",
        "any_split": "Not every dimension that is split makes a sum necessary. Batches are split "
        "in data parallel training; is the forward pass followed by an all-reduce?",
        "one_of_two": "Two dimensions that are summed over are split here, over two dimensions of "
        "the mesh. Summed along one of them, a rank still lacks the parts along the other.",
        "whole_mesh": "Ranks that differ in the other dimensions of the mesh have other slices of "
        "the result, or copies of the same sum. Adding those up is wrong.",
        "whole_bytes": "Each rank puts in what it has: its slice of the result, not the whole.",
        "elements": "Bytes, not numbers: a float32 has four.",
        "as_forward": "Each gradient is a product of its own: of the result's gradient and of the "
        "other inputs, with the dimensions of the input it belongs to. What does that product sum "
        "over? In data parallel training it is the batch.",
        "list": "gradient_sums returns a list: a pair for each input, in the inputs' order.",
        "sum_types": "A sum is a pair: a list of names of the mesh's dimensions, and a whole "
        "number of bytes; ([], 0) where there is nothing to add up.",
        "same_tensor": "Two dimensions of one tensor over the same dimension of the mesh: rank 0 "
        "would have the first half of both, rank 1 the second half of both, and nobody the rest.",
        "operation": "No single tensor is at fault here. One input's dimension and another's are "
        "split over the same dimension of the mesh: which rank has the product of the first's "
        "first half with the second's second half?",
        "divide": "Every rank has a slice of the same size. What if that is not a whole number?",
        "too_strict": "This layout is fine. Names in a layout that a tensor does not have do not "
        "concern it: the layout is that of a whole program.",
        "raised": "A layout may name dimensions that no tensor here has; a dimension of a tensor "
        "need not be in the layout; an output may have no dimension at all.",
    },
)
