"""Exercise mesh_layout: from named dimensions and a layout, each rank's slice and the sums to make.

`slice_of(tensor, mesh, layout, rank)`, `forward_sum(inputs, output, mesh, layout)` and
`gradient_sums(inputs, output, mesh, layout)`; ValueError for what cannot be split so.
"""

import math
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import ModuleType
from typing import Any

from hpml.checks.compare import described
from hpml.checks.contract import Check, Claim, Problem, Run
from hpml.checks.kits.ready_made import ANYTHING
from hpml.modules.m07_hybrid_parallelism.lecture import layouts
from hpml.modules.m07_hybrid_parallelism.lecture.layouts import FLOAT32, AllReduce
from hpml.ranks import mark

NAMES = ("slice_of", "forward_sum", "gradient_sums")
REFUSED = "refused"  # what a drive returns where the answer raised ValueError
TENSOR_NAMES = ("batch", "time", "heads", "depth", "hidden", "io", "words", "memory", "experts")
MESH_NAMES = ("rows", "columns", "nodes", "all", "left", "planes")

Case = dict[str, Any]  # "inputs" and "output": a product; "mesh", "layout"
Sums = list[tuple[list[str], int]]


# ---- what is asked: a product of each kind, with new names and sizes each time


def product(draw: random.Random, *texts: str) -> tuple[list[dict[str, int]], dict[str, int]]:
    """The inputs and the output of "ab", "bc", "ac": letters become names, with sizes that divide
    by 12; no two are alike."""
    letters = sorted(set("".join(texts)))
    names = dict(zip(letters, draw.sample(TENSOR_NAMES, len(letters)), strict=True))
    sizes = dict(zip(letters, draw.sample(range(12, 109, 12), len(letters)), strict=True))
    *inputs, output = ({names[k]: sizes[k] for k in text} for text in texts)
    return inputs, output


def legal_cases(draw: random.Random) -> Iterator[Case]:
    """For each kind: the product, the mesh's sizes, and the places of letters that are split."""
    kinds = (
        (("ab", "bc", "ac"), 1, {"a": 0}),  # data parallel
        (("ab", "bc", "ac"), 1, {"c": 0}),  # by columns
        (("ab", "bc", "ac"), 1, {"b": 0}),  # by rows
        (("ab", "bc", "ac"), 2, {"a": 0, "b": 1}),
        (("ab", "bc", "ac"), 3, {"a": 2, "c": 0}),
        (("abd", "dbc", "ac"), 3, {"d": 0, "b": 1, "a": 2}),  # two summed, in the other order
        (("abcd", "abed", "abce"), 2, {"b": 1, "e": 0}),  # attention: heads and memory split
        (("ab", "bc", "cd", "ad"), 2, {"b": 0, "c": 1}),  # three inputs
        (("ab", "bc", "cd", "ad"), 2, {"a": 1, "d": 0}),
        (("ab", "bc", "ac"), 2, {}),
    )
    for texts, dimensions, places in kinds:
        inputs, output = product(draw, *texts)
        names = dict(zip("".join(texts), [n for t in (*inputs, output) for n in t], strict=True))
        mesh_names = draw.sample(MESH_NAMES, dimensions)
        mesh = dict(zip(mesh_names, draw.sample((2, 3, 4), dimensions), strict=True))
        layout = {names[letter]: mesh_names[place] for letter, place in places.items()}
        # A layout is that of a whole program, and names dimensions of its other tensors too.
        layout["elsewhere"] = mesh_names[0]
        items = list(layout.items())
        draw.shuffle(items)
        yield {"inputs": inputs, "output": output, "mesh": mesh, "layout": dict(items)}


def illegal_cases(draw: random.Random) -> Iterator[tuple[str, Case]]:
    """(hint, a product that cannot be split so)."""
    inputs, output = product(draw, "ab", "bc", "ac")
    a, b, c = *inputs[0], *list(output)[1:]
    x, y = draw.sample(MESH_NAMES, 2)
    mesh = {x: 2, y: 3}
    case = {"inputs": inputs, "output": output, "mesh": mesh}
    yield "same_tensor", case | {"layout": {a: x, b: x}}
    yield "same_tensor", case | {"layout": {c: y, a: y}}
    yield "divide", case | {"mesh": {x: 2, y: 11}, "layout": {draw.choice((a, b, c)): y}}
    first, second = ({name: 12 * draw.randint(1, 5)} for name in draw.sample(TENSOR_NAMES, 2))
    crossed = {next(iter(first)): x, next(iter(second)): x}
    # Sum of all products of an element of one with an element of the other
    scalar = {"inputs": [first, second, dict(first), dict(second)], "output": {}}
    yield "operation", scalar | {"mesh": mesh, "layout": crossed}


def inputs(seed: int, world_size: int) -> list[dict[str, Any]]:
    draw = random.Random(seed)
    cases, illegal = list(legal_cases(draw)), [case for _, case in illegal_cases(draw)]
    both = [("legal", case) for case in cases] + [("illegal", case) for case in illegal]
    order = draw.sample(range(len(both)), len(both))  # so that the place says nothing
    return [{"cases": [both[k][1] for k in order], "kinds": [both[k][0] for k in order]}]


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


# ---- what is right, and the usual mistakes


def right_slices(case: Case) -> list[list[dict[str, tuple[int, int]]]]:
    """Of each tensor of a legal case, the slice of each rank."""
    mesh, layout = case["mesh"], case["layout"]
    return [
        [layouts.slice_of(tensor, mesh, layout, rank) for rank in range(math.prod(mesh.values()))]
        for tensor in (*case["inputs"], case["output"])
    ]


def right_sums(case: Case) -> tuple[AllReduce, list[AllReduce]]:
    operands = (case["inputs"], case["output"], case["mesh"], case["layout"])
    return layouts.forward_sum(*operands), layouts.backward_sums(*operands)


def expect(inputs: list[dict[str, Any]], world_size: int) -> list[Any]:
    """By case: None where it is illegal, else its slices and its sums."""
    return [
        (right_slices(case), *right_sums(case)) if kind == "legal" else None
        for case, kind in zip(inputs[0]["cases"], inputs[0]["kinds"], strict=True)
    ]


def swapped_order(tensor: Mapping, mesh: Mapping, layout: Mapping, rank: int) -> Any:
    back = dict(reversed(list(mesh.items())))
    return layouts.slice_of(tensor, back, layout, rank)


def rank_itself(tensor: Mapping, mesh: Mapping, layout: Mapping, rank: int) -> Any:
    bounds = {}
    for name, size in tensor.items():
        over = mesh[layout[name]] if name in layout else 1
        place = rank % over
        bounds[name] = (size // over * place, size // over * (place + 1))
    return bounds


def changed(change: Callable[[int, int], tuple[int, int]]) -> Callable[..., Any]:
    """A slice with each dimension's bounds changed."""

    def wrong(*arguments: Any) -> Any:
        return {name: change(*ends) for name, ends in layouts.slice_of(*arguments).items()}

    return wrong


SLICE_MISTAKES: dict[str, Callable[..., Any]] = {
    "order": swapped_order,
    "rank_itself": rank_itself,
    "lengths": changed(lambda start, stop: (start, stop - start)),
    "inclusive": changed(lambda start, stop: (start, stop - 1)),
}


def sum_of(
    case: Case, operands: Sequence[Mapping[str, int]], result: Mapping[str, int], mistake: str
) -> tuple[set[str], int]:
    """What somebody with this mistake says of the product of `operands` with the dimensions of
    `result`: the mesh's dimensions, and the bytes."""
    mesh, layout = case["mesh"], case["layout"]
    there = {name for tensor in operands for name in tensor}
    summed = {layout[name] for name in there if name not in result and name in layout}
    over = {
        "forgotten": set(),
        "any_split": {layout[name] for name in (*there, *result) if name in layout},
        "kept": {layout[name] for name in result if name in layout},
        "one_of_two": set([name for name in mesh if name in summed][:1]),
        "whole_mesh": set(mesh) if summed else set(),
    }.get(mistake, summed)
    local = math.prod(layouts.local_shape(result, mesh, layout).values())
    whole = math.prod(result.values())
    nbytes = {"whole_bytes": FLOAT32 * whole, "elements": local}.get(mistake, FLOAT32 * local)
    return over, nbytes if over else 0


SUM_MISTAKES = ("forgotten", "kept", "any_split", "one_of_two", "whole_mesh", "whole_bytes",
                "elements")  # fmt: skip


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
        given["cases"], given["kinds"], run.values[0], run.expected, strict=True
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
    for case, said, (right, *_) in legal(run):
        tensors = [*case["inputs"], case["output"]]
        for tensor, got, good in zip(tensors, said["slices"], right, strict=True):
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
    for hint, wrong in SLICE_MISTAKES.items():
        if all(
            is_slice(one, tensor) and {n: tuple(e) for n, e in one.items()} == wrong(
                tensor, case["mesh"], case["layout"], rank
            )
            for case, said, _ in legal(run)
            for tensor, got in zip([*case["inputs"], case["output"]], said["slices"], strict=True)
            for rank, one in enumerate(got)
        ):  # fmt: skip
            return hint
    return "slice"


def operations(case: Case) -> list[tuple[str, list[Mapping[str, int]], Mapping[str, int]]]:
    """(its name, operands, result) of the forward product and of each input's gradient."""
    ins, out = case["inputs"], case["output"]
    named = [("the product", list(ins), out)]
    for place, one in enumerate(ins):
        others = [out, *ins[:place], *ins[place + 1 :]]
        named.append((f"the gradient of input {place}, {shown(one)}", others, one))
    return named


def sums_problem(run: Run, gradients: bool) -> Problem | None:
    name = "gradient_sums" if gradients else "forward_sum"
    for case, said, (_, forward, backward) in legal(run):
        value = said["gradients"] if gradients else said["forward"]
        if value == REFUSED:
            return Problem(f"{name} {words(case)} raised ValueError", "too_strict")
        if gradients and (not isinstance(value, list) or len(value) != len(backward)):
            return Problem(f"{name} is {described(value)}", "list", f"{len(backward)} sums")
        got, right = (value, backward) if gradients else ([value], [forward])
        about = operations(case)[1:] if gradients else operations(case)[:1]
        for one, due, (what, *_) in zip(got, right, about, strict=True):
            where = f"{name} of {what} {words(case)}"
            if not is_sum(one):
                return Problem(f"{where} is {described(one)}", "sum_types")
            if set(one[0]) != set(due.over) or len(one[0]) != len(due.over) or one[1] != due.nbytes:
                seen = f"{where} is {(list(one[0]), one[1])}"
                return Problem(seen, sum_mistake(run, gradients), f"{(list(due.over), due.nbytes)}")
    return None


def sum_mistake(run: Run, gradients: bool) -> str:
    """The hint for the first mistake that explains every sum."""
    for hint in ("as_forward", *SUM_MISTAKES) if gradients else SUM_MISTAKES:
        if all(explains(case, said, gradients, hint) for case, said, _ in legal(run)):
            return hint
    return "sum"


def explains(case: Case, said: Mapping[str, Any], gradients: bool, hint: str) -> bool:
    first, *rest = operations(case)
    got = said["gradients"] if gradients else [said["forward"]]
    if not isinstance(got, list) or not all(map(is_sum, got)):
        return False
    if hint == "as_forward":
        wrong = [sum_of(case, *first[1:], "")] * len(rest)
    else:
        wrong = [sum_of(case, *one[1:], hint) for one in (rest if gradients else [first])]
    return [(set(over), nbytes) for over, nbytes in got] == wrong


def forward_is_right(run: Run) -> Problem | None:
    return sums_problem(run, gradients=False)


def gradients_are_right(run: Run) -> Problem | None:
    return sums_problem(run, gradients=True)


def illegal_is_refused(run: Run) -> Problem | None:
    given, accepted = run.inputs[0], {}
    for case, kind, said in zip(given["cases"], given["kinds"], run.values[0], strict=True):
        if kind == "illegal" and said["forward"] != REFUSED:
            seen = f"forward_sum {words(case)} returned a value"
            hint = why_illegal(case)
            accepted.setdefault(hint, Problem(seen, hint))
    for hint in ("same_tensor", "divide", "operation"):  # the plainest first
        if hint in accepted:
            return accepted[hint]
    # An answer that refuses everything has understood nothing.
    strict = (judge(run) for judge in (slices_are_right, forward_is_right))
    return next((problem for problem in strict if problem and problem.hint == "too_strict"), None)


def why_illegal(case: Case) -> str:
    for tensor in (*case["inputs"], case["output"]):
        try:
            layouts.refuse(tensor, case["mesh"], case["layout"])
        except layouts.IllegalLayout as error:
            return "divide" if "divide" in str(error) else "same_tensor"
    return "operation"


CHECK = Check(
    id="mesh_layout",
    title="Names, a mesh, and what follows",
    names=NAMES,
    to_write="each rank's slice, and the sums that follow",
    allowed=ANYTHING,
    worlds=(1,),
    process_group=False,
    inputs=inputs,
    drive=drive,
    expect=expect,
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
