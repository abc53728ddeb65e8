"""new_group is a collective of all ranks: where some do not call it, that is told."""

import pytest

from hpml.ranks import launch
from hpml.ranks.parent.groups import RULE

HEAD = "import time, torch, torch.distributed as dist\ndef go():\n    rank = dist.get_rank()\n"
CASES = {
    "two of four": (
        4,
        "if rank < 2:\n    dist.new_group()",
        (2, 3),
        "ranks 0 and 1 make a group of ranks 0, 1, 2 and 3 (new_group, line 5 of your answer); "
        f"ranks 2 and 3 have returned; ranks 2 and 3 never call new_group: {RULE}",
    ),
    "one of two, and a barrier": (
        2,
        "if rank == 0:\n    dist.new_group([0, 1])\ndist.barrier()",
        (1,),
        "rank 1 waits in barrier (call 1, line 6 of your answer); rank 0 makes a group of ranks 0 "
        "and 1 (new_group, line 5 of your answer); rank 1 never calls new_group: " + RULE,
    ),
    "once more": (
        2,
        "dist.new_group()\nif rank:\n    dist.new_group()",
        (0,),
        "rank 1 makes a group of ranks 0 and 1 (new_group, line 6 of your answer); rank 0 has "
        f"returned; new_group is called by rank 0 once, rank 1 2 times: {RULE}",
    ),
    "in another order": (
        2,
        "for ranks in ([[0], [0, 1]], [[0, 1], [0]])[rank]:\n    dist.new_group(ranks)",
        (1,),
        "ranks 0 and 1 make a group of ranks 0 and 1 (new_group, line 5 of your answer); call 1 of "
        f"new_group is made by rank 0 for rank 0, rank 1 for ranks 0 and 1: {RULE}",
    ),
}
# In another order torch's store may let rank 1 pass, which counts who came and not for what
OR = {
    "in another order": CASES["in another order"][3]
    .replace("ranks 0 and 1 make", "rank 0 makes", 1)
    .replace("; call", "; rank 1 has returned; call", 1)
}


@pytest.mark.parametrize("proxied", [False, True])
@pytest.mark.parametrize("name", CASES)
def test_who_does_not_make_a_group_with_the_others_is_told(name, proxied):
    size, body, causes, says = CASES[name]
    found = go(body, size, proxied).diagnosis
    assert (found.kind, found.ranks) == ("hang", causes)
    assert found.sentence in (says, OR.get(name))


@pytest.mark.parametrize("proxied", [False, True])
@pytest.mark.parametrize(
    "body",
    [
        "for ranks in ([0], [0, 1], [1]):\n    dist.new_group(ranks)",
        "time.sleep(1.5 * rank)\ndist.all_reduce(torch.ones(1), group=dist.new_group([1, 0]))",
        "dist.new_group([rank], use_local_synchronization=True)",
        "from torch.distributed.device_mesh import init_device_mesh\n"
        "init_device_mesh('cpu', (2, 1))\ndist.barrier()",
    ],
    ids=["in one order", "late", "for members alone", "a mesh"],
)
def test_groups_that_all_ranks_make_are_made(body, proxied):
    assert go(body, 2, proxied).diagnosis is None


@pytest.mark.parametrize("ranks", ["'ab'", "[0, 0]", "[7]", "3"])
def test_what_is_not_a_list_of_ranks_is_left_to_pytorch(ranks):
    found = go(f"dist.new_group({ranks})", 2).diagnosis
    assert found.kind == "raised"
    assert "line 4 of your answer" in found.sentence


def go(body: str, size: int, proxied: bool = False):
    """The evidence of `def go():` with this body; its first line is line 4 of the answer."""
    indented = "".join(f"    {line}\n" for line in body.split("\n"))
    return launch(lambda answer: answer.go(), size, answer=HEAD + indented, proxied=proxied)
