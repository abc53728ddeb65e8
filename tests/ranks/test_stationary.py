"""What a sample of a rank's frames tells, and that taking one runs nothing of the answer's."""

import sys
import types

import torch

from hpml.ranks.stationary import never_ends, sampler


def sampled(source: str, *, times: int = 2) -> list[list]:
    """Samples in a row of where `source` calls `look`."""
    sent: list[list] = []
    handler = sampler(sent.append, "answer")

    def look() -> None:
        for _ in range(times):
            handler(0, sys._getframe(1))

    names = {"look": look, "torch": torch, "types": types}
    exec(compile(source, "answer", "exec"), names)
    return sent


FUNCTION = """
def work():
    {variables}
    look()
work()
"""


def same(variables: str) -> bool:
    first, second = sampled(FUNCTION.format(variables=variables))
    assert first[:2] == second[:2] == ["sample", 4]
    return first[2] == second[2]


def test_plain_values_that_do_not_change_are_the_same():
    assert same("a, b, c, d = 1, 'x', [2.5, (None, True)], {'key': {b'k': 3}}")
    assert same("t, f, m, k = torch.ones(3), torch.sum, types, int")


def test_what_may_have_changed_unseen_is_never_the_same():
    assert not same("a = object()")
    assert not same("a = {object(): 1}")
    assert not same("a = [[[[1]]]]")
    assert not same("a = list(range(51))")
    assert not same("with torch.inference_mode(): a = torch.ones(3)")


def test_a_tensor_that_was_changed_in_place_is_another():
    source = """
def work():
    t = torch.ones(3)
    for _ in range(2):
        look()
        t += 1
work()
"""
    first, second = sampled(source, times=1)
    assert first[2] != second[2]


def test_nothing_of_the_answer_runs():
    ran = """
class Loud:
    def _say(self, *_):
        raise RuntimeError("the answer ran")
    __repr__ = __str__ = __eq__ = __iter__ = __len__ = __getattr__ = _say
    __hash__ = object.__hash__
    __class__ = property(_say)

class LoudList(list):
    __iter__ = __len__ = Loud._say

class LoudDict(dict):
    __iter__ = __len__ = items = Loud._say

class LoudText(str):
    __hash__ = __eq__ = Loud._say

class LoudTensor(torch.Tensor):
    @classmethod
    def __torch_function__(cls, *_, **__):
        raise RuntimeError("the answer ran")

def work(loud, items, names, text, tensor, keys):
    look()

work(Loud(), LoudList([1]), LoudDict(a=1), LoudText("a"), LoudTensor(), {Loud(): 1})
"""
    assert len(sampled(ran)) == 2


def test_a_frame_of_another_file_makes_no_claim():
    sent: list[list] = []
    sampler(sent.append, "answer")(0, sys._getframe())
    assert sent == [["sample", None, 0]]


def test_only_a_while_that_calls_nothing_never_ends():
    assert never_ends("while True:\n    x = 1\n", 2)
    assert not never_ends("while True:\n    f()\n", 2)
    assert not never_ends("for x in y:\n    z = 1\n", 2)
    assert not never_ends("x = 1\n", 1)
