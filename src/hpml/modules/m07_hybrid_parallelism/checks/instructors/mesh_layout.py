"""The plays of mesh_layout: products on meshes, what follows from a layout, and usual mistakes."""

import math
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from hpml.modules.m07_hybrid_parallelism.lecture import layouts
from hpml.modules.m07_hybrid_parallelism.lecture.layouts import FLOAT32

TENSOR_NAMES = ("batch", "time", "heads", "depth", "hidden", "io", "words", "memory", "experts")
MESH_NAMES = ("rows", "columns", "nodes", "all", "left", "planes")

Case = dict[str, Any]  # as the check has them
Slices = list[dict[str, tuple[int, int]]]  # of a tensor, each rank's
Sum = tuple[list[str], int]  # the mesh's dimensions in its order, and bytes


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
        (("ab", "ab", ""), 2, {"a": 1}),  # an inner product: the output has no dimension
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
    yield "same_tensor", case | {"layout": {c: y, b: y}}
    yield "same_tensor", case | {"layout": {c: y, a: y}}
    for name in (a, b, c):  # 11 divides no multiple of 12 below 109
        yield "divide", case | {"mesh": {x: 2, y: 11}, "layout": {name: y}}
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


def expect(inputs: list[dict[str, Any]], world_size: int) -> dict[str, Any]:
    """By case what is right: of an illegal one the hint that says why. And of the legal ones what
    somebody with each mistake returns."""
    both = [*zip(inputs[0]["cases"], inputs[0]["kinds"], strict=True)]
    legal = [case for case, kind in both if kind == "legal"]
    return {
        "right": [
            {
                "slices": all_slices(case, right_slices),
                "forward": forward(case, ""),
                "gradients": gradients(case, ""),
            }
            if kind == "legal"
            else {"hint": why_illegal(case), "tensors": illegal_tensors(case)}
            for case, kind in both
        ],
        "mistakes": {
            "slices": [
                (hint, [all_slices(case, wrong) for case in legal])
                for hint, wrong in SLICE_MISTAKES.items()
            ],
            "forward": [(hint, [forward(case, hint) for case in legal]) for hint in SUM_MISTAKES],
            "gradients": [
                (hint, [gradients(case, hint) for case in legal])
                for hint in ("as_forward", *SUM_MISTAKES)
            ],
        },
    }


# ---- slices


def all_slices(case: Case, slices: Callable[..., Slices]) -> list[Slices]:
    tensors = (*case["inputs"], case["output"])
    return [slices(tensor, case["mesh"], case["layout"]) for tensor in tensors]


def right_slices(tensor: Mapping, mesh: Mapping, layout: Mapping) -> Slices:
    held = layouts.holders(tensor, mesh, layout).items()
    parts = {rank: dict(zip(tensor, part, strict=True)) for part, ranks in held for rank in ranks}
    return [parts[rank] for rank in range(len(parts))]


def swapped_order(tensor: Mapping, mesh: Mapping, layout: Mapping) -> Slices:
    return right_slices(tensor, dict(reversed(mesh.items())), layout)


def rank_itself(tensor: Mapping, mesh: Mapping, layout: Mapping) -> Slices:
    slices = []
    for rank in range(math.prod(mesh.values())):
        bounds = {}
        for name, size in tensor.items():
            over = mesh[layout[name]] if name in layout else 1
            place = rank % over
            bounds[name] = (size // over * place, size // over * (place + 1))
        slices.append(bounds)
    return slices


def changed(change: Callable[[int, int], tuple[int, int]]) -> Callable[..., Slices]:
    """Slices with each dimension's bounds changed."""

    def wrong(*arguments: Any) -> Slices:
        return [
            {name: change(*ends) for name, ends in one.items()} for one in right_slices(*arguments)
        ]

    return wrong


SLICE_MISTAKES: dict[str, Callable[..., Slices]] = {
    "order": swapped_order,
    "rank_itself": rank_itself,
    "lengths": changed(lambda start, stop: (start, stop - start)),
    "inclusive": changed(lambda start, stop: (start, stop - 1)),
}


# ---- sums


def operations(case: Case) -> list[tuple[list[Mapping[str, int]], Mapping[str, int]]]:
    """Operands and result of the product, and of each input's gradient."""
    tensors = [case["output"], *case["inputs"]]
    return [([*tensors[:n], *tensors[n + 1 :]], one) for n, one in enumerate(tensors)]


def forward(case: Case, mistake: str) -> list[Sum]:
    """The only one."""
    return [sum_of(case, *operations(case)[0], mistake)]


def gradients(case: Case, mistake: str) -> list[Sum]:
    if mistake == "as_forward":
        return forward(case, "") * len(case["inputs"])
    return [sum_of(case, *each, mistake) for each in operations(case)[1:]]


def sum_of(
    case: Case, operands: Sequence[Mapping[str, int]], result: Mapping[str, int], mistake: str
) -> Sum:
    """What somebody with this mistake, or with none, says of the product of `operands` with the
    dimensions of `result`."""
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
    whole = math.prod(result.values())
    local = whole // math.prod(mesh[layout[name]] for name in result if name in layout)
    nbytes = {"whole_bytes": FLOAT32 * whole, "elements": local}.get(mistake, FLOAT32 * local)
    return [name for name in mesh if name in over], nbytes if over else 0


SUM_MISTAKES = ("forgotten", "kept", "any_split", "one_of_two", "whole_mesh", "whole_bytes",
                "elements")  # fmt: skip


def why_illegal(case: Case) -> str:
    reasons = [why for tensor in tensors_of(case) if (why := why_no_slices(case, tensor))]
    return reasons[0] if reasons else "operation"


def illegal_tensors(case: Case) -> list[int]:
    """The places of those tensors that have no slices, among the inputs and the output."""
    return [n for n, tensor in enumerate(tensors_of(case)) if why_no_slices(case, tensor)]


def tensors_of(case: Case) -> list[Mapping[str, int]]:
    return [*case["inputs"], case["output"]]


def why_no_slices(case: Case, tensor: Mapping[str, int]) -> str:
    """Why this tensor cannot be split so; "" if it can."""
    try:
        layouts.refuse(tensor, case["mesh"], case["layout"])
    except layouts.IllegalLayout as error:
        return "divide" if "divide" in str(error) else "same_tensor"
    return ""
