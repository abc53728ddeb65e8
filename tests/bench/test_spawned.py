"""The check that the benchmark gives to nbgrader: it judges, on ranks that it starts itself."""

import logging
from dataclasses import replace

import pytest

from hpml.bench import spawned
from hpml.checks import find

HELLO = """# %%answer hello_ranks
import torch
import torch.distributed as dist


def hello(number):
    total = torch.tensor(number)
    dist.all_reduce(total{op})
    return total.item()
"""


@pytest.fixture(scope="module")
def hello():
    return replace(find("hello_ranks"), worlds=(1, 3))


def test_a_right_answer_passes(hello):
    assert spawned.judge(hello, HELLO.format(op="")) is None


def test_a_wrong_answer_fails_by_the_claim_that_it_misses(hello):
    with pytest.raises(spawned.NotHeld, match="world size 3: rank 0 returns the sum"):
        spawned.judge(hello, HELLO.format(op=", op=dist.ReduceOp.MAX"))


def test_a_rank_that_dies_fails_the_answer_without_a_word_on_stderr(hello, capfd, caplog):
    logging.getLogger("torch.multiprocessing.spawn").addHandler(caplog.handler)
    source = (
        "import os, sys, time\n\n\ndef hello(number):\n    print('oh', file=sys.stderr)\n"
        "    if os.environ['RANK'] == '0':\n        os.abort()\n    time.sleep(60)\n"
    )
    with pytest.raises(spawned.NotHeld, match=r"world size 2: .*SIGABRT"):
        spawned.judge(replace(hello, worlds=(2,)), source)
    assert (capfd.readouterr().err, caplog.text) == ("", "")  # for which nbgrader would take points


def test_an_answer_that_raises_is_told_why(hello):
    with pytest.raises(spawned.NotHeld, match="world size 1: ValueError: mine"):
        spawned.judge(hello, "def hello(number):\n    raise ValueError('mine')\n")


def test_what_would_need_a_ledger_counts_as_held(hello):
    def asks(run):
        return run.evidence.ranks[0].calls[0]

    claims = (replace(hello.claims[0], name="asks for calls", judge=asks), *hello.claims)
    check = replace(hello, worlds=(1,), claims=claims)
    assert spawned.judge(check, HELLO.format(op="")) is None
