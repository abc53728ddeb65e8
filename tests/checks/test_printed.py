"""What ranks printed: some lines of each, safe to show, no matter who wrote them."""

from hypothesis import given
from hypothesis import strategies as st

from hpml.checks.contract import Stage
from hpml.checks.printed import COLUMNS, LONGEST, printed
from hpml.ranks.evidence import Evidence, RankEvidence


def play(*texts: str, cut: bool = False) -> dict[str, Evidence]:
    ranks = [
        RankEvidence(rank, "returned", stdout=text, stdout_cut=cut)
        for rank, text in enumerate(texts)
    ]
    return {"play": Evidence(len(ranks), tuple(ranks), 0.1)}


def test_each_line_has_its_rank_in_front_and_ranks_that_printed_the_same_share_it():
    assert printed(play("a\nb\n", "c")) == "[0] a\n[0] b\n[1] c"
    assert printed(play("same", "same", "other")) == "[0-1] same\n[2] other"
    assert printed(play("", "  \n")) == ""


def test_of_many_lines_the_first_and_the_last_are_shown():
    lines = printed(play("\n".join(f"line {n}" for n in range(100)))).splitlines()
    assert len(lines) == 21
    assert lines[14:17] == ["[0] line 14", "[0] … 80 lines are left out here …", "[0] line 95"]


def test_a_flood_is_named_as_one():
    shown = printed(play("x\n" * 1000, cut=True)).splitlines()
    assert len(shown) == 21
    assert shown[-1] == "[0] … and so on: more than is kept of a rank's output"


def test_what_a_library_logs_by_itself_is_no_print_of_the_answers():
    logged = "[rank0]:[W1123 15:25:03.949611754 CPUAllocator.cpp:245] Memory block"
    assert printed(play(f"{logged}\n[W1123 15:25:03.9 socket.cpp:207] [c10d] no name\nmine")) == (
        "[0] mine"
    )
    warned = "/x/lib/python3.11/site-packages/torch/a.py:7: UserWarning: beta"
    assert printed(play(warned)) == "[0] torch/a.py:7: UserWarning: beta"
    for kind in ("FutureWarning", "DeprecationWarning"):
        old = f"/x/lib/python3.11/site-packages/torch/a.py:7: {kind}: `a` is deprecated"
        assert printed(play(f"first\n{old}\n  return a()\n  mine\n")) == "[0] first\n[0]   mine"
        assert kind in printed(play(f"/home/me/w.py:7: {kind}: mine is old"))


def test_a_progress_bar_is_its_last_state():
    assert printed(play("\r10 %\r50 %\r100 %\ndone")) == "[0] 100 %\n[0] done"


def test_launches_without_the_answer_are_left_out_and_others_are_named():
    one = play("mine")["play"]
    stages = {"torchrun": one, "reference": one}
    of_check = (Stage("torchrun", print), Stage("reference", print, with_answer=False))
    assert printed(stages, of_check) == "torchrun, 1 rank:\n[0] mine"


@given(st.lists(st.text(st.characters()) | st.sampled_from(["\x1b[2J", "\u2028[7] x", "\x0b"])))
def test_no_line_redraws_a_terminal_or_pretends_to_be_another_ranks(texts):
    shown = printed(play(*texts))
    assert len(shown) < LONGEST + 100
    for line in shown.split("\n") if shown else []:
        assert line.startswith(("[", "…"))
        assert len(line) <= COLUMNS + 12
        assert line.replace("\t", "").isprintable()
