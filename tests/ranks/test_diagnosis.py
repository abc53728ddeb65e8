"""Ranks that do not come to an end: found, ended, and told in a sentence with ranks and lines."""

import re

import pytest

from hpml.ranks import launch
from hpml.ranks.parent.phrases import in_brief

IMPORTS = "import os, queue, sys, time, torch, torch.distributed as dist\n"


def diagnose(body: str, world_size: int = 2, **options):
    """The evidence of `def go():` with this body; its first line is line 3 of the answer."""
    indented = "".join(f"    {line}\n" for line in body.strip("\n").split("\n"))
    answer = f"{IMPORTS}def go():\n{indented}"
    return launch(lambda answer: answer.go(), world_size, answer=answer, **options)


CASES = {
    "a rank that never enters": (
        "if dist.get_rank() == 1:\n    dist.all_reduce(torch.ones(3))",
        "hang",
        (0,),
        "rank 1 waits in all_reduce (call 1, line 4 of your answer); "
        "rank 0 has made no call at all and returned",
    ),
    "a rank that left through another call": (
        "dist.barrier()\nif dist.get_rank() == 1:\n    dist.all_reduce(torch.ones(3))",
        "hang",
        (0,),
        "rank 1 waits in all_reduce (call 2, line 5 of your answer); "
        "rank 0 has left through barrier (call 1, line 3 of your answer) and returned",
    ),
    "different collectives": (
        "if dist.get_rank() == 1:\n    dist.all_reduce(torch.ones(3))\nelse:\n    dist.barrier()",
        "mismatch",
        (0, 1),
        "ranks are in different collectives: rank 0 in barrier (call 1, line 6 of your answer), "
        "rank 1 in all_reduce (call 1, line 4 of your answer)",
    ),
    "different shapes": (
        "dist.all_reduce(torch.ones(3 + dist.get_rank()))",
        "mismatch",
        (0, 1),
        "ranks bring different shapes to all_reduce: rank 0 float32 [3] sum (call 1, line 3 of "
        "your answer), rank 1 float32 [4] sum (call 1, line 3 of your answer)",
    ),
    "different dtypes": (
        "dist.all_reduce(torch.ones(3).to([torch.float32, torch.float64][dist.get_rank()]))",
        "mismatch",
        (0, 1),
        "ranks bring different dtypes to all_reduce: rank 0 float32 [3]",
    ),
    "a message of another dtype": (
        "if dist.get_rank() == 1:\n    dist.send(torch.ones(3), 0)\n"
        "else:\n    dist.recv(torch.ones(3, dtype=torch.int64), 1)",
        "mismatch",
        (0, 1),
        "a message does not fit where it arrives: rank 1 sends float32 [3] to rank 0 (call 1, "
        "line 4 of your answer), which receives into int64 [3] (call 1, line 6 of your answer)",
    ),
    "a message that is too long, as Gloo ends the process": (
        "if dist.get_rank() == 1:\n    dist.isend(torch.ones(300), 0).wait()\n"
        "else:\n    dist.recv(torch.ones(2), 1)",
        "mismatch",
        (0, 1),
        "a message does not fit where it arrives: rank 1 sends float32 [300] to rank 0",
    ),
    "an isend that nobody waits for": (
        "if dist.get_rank() == 1:\n    dist.isend(torch.ones(3), 0)\n    dist.barrier()\n"
        "else:\n    time.sleep(0.5)\n    dist.recv(torch.ones(3), 1)\n    dist.barrier()",
        "hang",
        (1,),
        "rank 1's isend to 0 (call 1, line 4 of your answer) was never waited for; rank 0 waits "
        "in recv from 1 (call 1, line 8 of your answer)",
    ),
    "different roots": (
        "dist.broadcast(torch.ones(3), src=dist.get_rank())",
        "mismatch",
        (0, 1),
        "ranks bring different operations or roots to broadcast: rank 0 float32 [3] from 0",
    ),
    "one rank raises": (
        "if dist.get_rank() == 1:\n    raise ValueError('no')\ndist.all_reduce(torch.ones(3))",
        "raised",
        (1,),
        "rank 1 raised ValueError: no (line 4 of your answer); "
        "rank 0 waits in all_reduce (call 1, line 5 of your answer)",
    ),
    "all ranks raise": (
        "raise NotImplementedError",
        "raised",
        (0, 1),
        "ranks 0 and 1 raised NotImplementedError (line 3 of your answer)",
    ),
    "os._exit": (
        "if dist.get_rank() == 1:\n    os._exit(0)\ndist.all_reduce(torch.ones(3))",
        "exited",
        (1,),
        "rank 1 left with exit code 0 instead of returning",
    ),
    "sys.exit": (
        "if dist.get_rank() == 1:\n    sys.exit(3)\ndist.all_reduce(torch.ones(3))",
        "exited",
        (1,),
        "rank 1 left with exit code 3 at line 4 of your answer instead of returning",
    ),
    "a crash in native code": (
        "if dist.get_rank() == 1:\n    os.kill(os.getpid(), 11)\ndist.all_reduce(torch.ones(3))",
        "killed",
        (1,),
        "rank 1 was killed by SIGSEGV",
    ),
    "a loop in which nothing changes": (
        "done = False\nwhile not done:\n    pass",
        "hang",
        (0, 1),
        "ranks 0 and 1 loop for ever at line ",
    ),
    "everybody sends first": (
        "other = 1 - dist.get_rank()\n"
        "dist.send(torch.ones(9), other)\n"
        "dist.recv(torch.ones(9), other)",
        "hang",
        (0, 1),
        "everybody sends and nobody receives",
    ),
    "stuck outside any collective": (
        "if dist.get_rank() == 0:\n    queue.Queue().get()\ndist.all_reduce(torch.ones(3))",
        "hang",
        (0,),
        "rank 0 is stuck at line 4 of your answer, in no collective",
    ),
    "ddp with fewer steps on one rank": (
        "model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(3, 3))\n"
        "for _ in range(3 - dist.get_rank()):\n    model(torch.ones(2, 3)).sum().backward()",
        "hang",
        (1,),
        "rank 0 waits in all_reduce (call",
    ),
    "a value that cannot be sent": (
        "return object()",
        "refused",
        (0, 1),
        "returned something that cannot be sent: value is of type object",
    ),
    "a syntax error": (
        "x = = 1",
        "raised",
        (0, 1),
        "ranks 0 and 1 raised SyntaxError: invalid syntax (line 3 of your answer)",
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_each_way_to_go_wrong_has_its_sentence(name):
    body, kind, causes, says = CASES[name]
    # A timeout far beyond what a diagnosis takes: reaching it would be kind "limit".
    diagnosis = diagnose(body, timeout=60).diagnosis
    assert diagnosis is not None
    assert diagnosis.kind == kind
    assert says in diagnosis.sentence
    assert diagnosis.ranks == causes


@pytest.mark.parametrize(
    "name",
    [
        "a rank that left through another call",
        "different collectives",
        "os._exit",
        "everybody sends first",
        "ddp with fewer steps on one rank",
    ],
)
def test_proxies_beside_the_ranks_change_no_sentence(name):
    body, kind, causes, says = CASES[name]
    diagnosis = diagnose(body, timeout=60, proxied=True).diagnosis
    assert diagnosis.kind == kind
    assert diagnosis.ranks == causes
    assert says in diagnosis.sentence


def test_the_odd_rank_among_four_is_the_cause():
    body = "dist.all_reduce(torch.ones(4 if dist.get_rank() == 2 else 3))"
    diagnosis = diagnose(body, 4).diagnosis
    assert diagnosis.ranks == (2,)
    assert "ranks 0, 1 and 3 float32 [3] sum" in diagnosis.sentence


def test_slow_work_is_told_apart_from_a_hang():
    body = (
        "if dist.get_rank() == 0:\n    time.sleep(1.8)\n"
        "dist.all_reduce(torch.ones(3))\n"
        "end = time.time() + 1.8\n"
        "while dist.get_rank() == 1 and time.time() < end:\n    pass\n"
        "dist.all_reduce(torch.ones(3))"
    )
    assert diagnose(body).diagnosis is None


def test_a_loop_that_changes_something_may_be_work_and_ends_at_the_limit():
    diagnosis = diagnose("x = 0\nwhile True: x += 1", timeout=2).diagnosis
    assert diagnosis.kind == "limit"
    assert "not done after 2 s: ranks 0 and 1 were still at work at line 4" in diagnosis.sentence


@pytest.mark.parametrize(
    ("misses", "says"),
    [
        ("pass", "not done after 2 s: rank 1 was still at work at line 4 of your answer"),
        (
            "dist.barrier()",
            "not done after 2 s: rank 1 was still at work at line 4 of your answer; rank 2 waits "
            "in barrier (call 1, line 6 of your answer); rank 0 has made no call at all and "
            "returned",
        ),
    ],
    ids=["nobody", "somebody"],
)
def test_who_has_returned_is_named_at_the_limit_if_somebody_misses_it(misses, says):
    body = "x = dist.get_rank()\nwhile x % 3 == 1: x += 3\nif x == 2:\n    "
    assert diagnose(body + misses, 3, timeout=2).diagnosis.sentence == says


def test_stacks_are_there_for_who_asks():
    evidence = diagnose("if dist.get_rank() == 1:\n    dist.barrier()")
    text = evidence.diagnosis.stacks[1]
    assert 'File "<answer>", line 4 in go' in text


def test_what_the_other_ranks_did_is_still_evidence():
    evidence = diagnose("dist.barrier()\nif dist.get_rank() == 1:\n    raise ValueError('x')")
    assert [rank.end for rank in evidence.ranks] == ["returned", "raised"]
    assert evidence.ranks[1].raised.kind == "ValueError"
    assert evidence.ranks[0].calls[0].operation == "barrier"


DDP = (
    "Expected to have finished reduction in the prior iteration. " + 300 * "x" + " Parameter "
    "indices which did not receive grad for rank 0: 2 3\n In addition, you can set the variable"
)


@pytest.mark.parametrize(
    ("message", "ends"),
    [
        ('Error(s) in loading state_dict for Net:\n\tMissing key(s): "a". ', ': "a".'),
        ("Caught ValueError in process 0.\nTraceback:\n  File\nValueError: image 0", "image 0"),
        (DDP, "for rank 0: 2 3"),
        ("it failed\nException raised from doWait at a.cpp\nframe #0: c10::Error", "it failed"),
        ("no", "no"),
        ("", ""),
        (" \n\n", ""),
    ],
)
def test_of_a_long_message_both_ends_are_told(message, ends):
    told = in_brief(message)
    assert told.startswith(message.strip()[:30].split("\n")[0])
    assert told.endswith(ends)
    assert len(told) < 520
    assert "\n" not in told


def test_what_began_it_all_is_told():
    body = (
        "try:\n    int('x')\nexcept ValueError as error:\n    raise RuntimeError('no') from error"
    )
    sentence = diagnose(body).diagnosis.sentence
    assert "raised RuntimeError: no … ValueError: invalid literal for int()" in sentence
    body = "error = RuntimeError('no')\nerror.__cause__ = error\nraise error"
    assert "raised RuntimeError: no (line" in diagnose(body).diagnosis.sentence


def test_the_end_of_a_message_that_is_far_too_long_arrives():
    body = "raise ValueError('a' + 50_000 * 'b' + '\\nthe cause')"
    assert diagnose(body).diagnosis.sentence.count("the cause") == 1


def test_an_exception_whose_str_raises_is_still_told():
    body = "class E(Exception):\n    def __str__(self): raise RuntimeError\nraise E"
    assert diagnose(body).diagnosis.sentence.startswith("ranks 0 and 1 raised E (line 5")


def test_a_rank_that_never_joins_the_group_is_named():
    body = "if os.environ['RANK'] == '0':\n    dist.init_process_group('gloo')"
    diagnosis = diagnose(body, process_group=False).diagnosis
    assert diagnosis.kind == "hang"
    assert "rank 0 waits in init_process_group (line 4 of your answer)" in diagnosis.sentence


HERE = "rank, port = int(os.environ['RANK']), int(os.environ['MASTER_PORT'])\n"
APART = {
    "ports": (
        "dist.init_process_group('gloo', f'tcp://127.0.0.1:{port + rank}', None, 2, rank)",
        "rank 0 waits for 2 ranks at 127.0.0.1:PORT, rank 1 for 2 ranks at 127.0.0.1:NEXT in "
        "init_process_group (line 4 of your answer); all have come, and do not meet",
    ),
    "sizes": (
        "dist.init_process_group('gloo', rank=rank, world_size=3 + rank)",
        "rank 0 waits for 3 ranks at 127.0.0.1:PORT, rank 1 for 4 ranks at 127.0.0.1:PORT in "
        "init_process_group (line 4 of your answer); all have come, and do not meet",
    ),
    "more than there are": (
        "dist.init_process_group('gloo', rank=rank, world_size=4)",
        "ranks 0 and 1 wait for 4 ranks at 127.0.0.1:PORT in init_process_group (line 4 of your "
        "answer); there are 2 ranks in all",
    ),
    "numbers": (
        "dist.init_process_group('gloo', f'tcp://localhost:{port}?rank={1}&world_size=2')",
        "ranks 0 and 1 wait for 2 ranks at localhost:PORT in init_process_group (line 4 of your "
        "answer); ranks 0 and 1 come as rank 1; all have come, and do not meet",
    ),
    "a store": (
        "dist.TCPStore('127.0.0.1', port + rank, 2, rank == 0)",
        "rank 0 waits for 2 ranks at 127.0.0.1:PORT, rank 1 for 2 ranks at 127.0.0.1:NEXT in "
        "TCPStore (line 4 of your answer); all have come, and do not meet",
    ),
    "a store without a master": (
        "dist.TCPStore('127.0.0.1', port, 2)",
        "ranks 0 and 1 wait for 2 ranks at 127.0.0.1:PORT in TCPStore (line 4 of your answer); "
        "none of them is its master; all have come, and do not meet",
    ),
    "a name that leads nowhere": (
        "dist.init_process_group('gloo', f'tcp://nowhere.invalid:{port}', None, 2, rank)",
        "ranks 0 and 1 wait for 2 ranks at nowhere.invalid:PORT in init_process_group (line 4 of "
        "your answer); all have come, and do not meet",
    ),
}


@pytest.mark.parametrize("name", APART)
def test_where_ranks_do_not_meet_it_is_told_what_each_asked_for(name):
    body, says = APART[name]
    found = diagnose(f"{HERE}{body}", process_group=False, timeout=60)
    assert (found.diagnosis.kind, found.diagnosis.cause) == ("hang", "apart")
    ports = dict.fromkeys(re.findall(r":(\d+)", found.diagnosis.sentence))
    told = found.diagnosis.sentence
    for port, stands in zip(ports, ("PORT", "NEXT"), strict=False):
        told = told.replace(f":{port}", f":{stands}")
    assert told == says


def test_one_rank_that_meets_nobody_is_told_why():
    url = "'tcp://127.0.0.1:29777?rank=1&world_size=1'"
    found = diagnose(f"dist.init_process_group('gloo', {url})", 1, process_group=False).diagnosis
    assert found.sentence.endswith("(line 3 of your answer); rank 0 comes as rank 1")
    assert found.cause == "apart"


def test_ranks_that_give_one_place_two_names_meet():
    body = "name = ('localhost', '127.0.0.1')[rank]\n"
    body += "dist.init_process_group('gloo', f'tcp://{name}:{port}', None, 2, rank)"
    assert diagnose(HERE + body, process_group=False).diagnosis is None


def test_a_signal_without_a_name_is_told_by_its_number():
    diagnosis = diagnose("os.kill(os.getpid(), 62)", 1).diagnosis
    assert diagnosis.sentence.startswith("rank 0 was killed by signal 62")


CAUSES = {
    "what arrives": ("a message of another dtype", 2),
    "never waited for": ("an isend that nobody waits for", 2),
}


@pytest.mark.parametrize("cause", CAUSES)
def test_a_finer_cause_is_named_where_the_ledger_shows_one(cause):
    name, world_size = CAUSES[cause]
    assert diagnose(CASES[name][0], world_size).diagnosis.cause == cause


def test_one_rank_that_hangs_has_nobody_to_wait_for():
    assert diagnose("queue.Queue().get()", 1).diagnosis.cause == "one rank"


def test_an_endless_loop_is_a_cause_of_its_own():
    assert diagnose("while True: pass", 1).diagnosis.cause == "endless loop"


def test_a_process_that_a_library_aborts_is_told_from_one_that_was_killed():
    assert diagnose("os.abort()", 1).diagnosis.cause == "aborted"
    assert diagnose("os.kill(os.getpid(), 9)", 1).diagnosis.cause == ""


def test_a_message_that_is_shorter_than_its_place_is_none_of_them():
    body = "a = torch.zeros(5)\nif dist.get_rank():\n    dist.send(torch.ones(3), 0)\n"
    body += "else:\n    dist.recv(a, 1)\nreturn a.sum().item()"
    evidence = diagnose(body)
    assert evidence.diagnosis is None
    assert list(evidence.values) == [3.0, 0.0]


def test_an_isend_that_is_waited_for_later_is_no_hang():
    body = (
        "if dist.get_rank():\n    handle = dist.isend(torch.ones(3), 0)\n    time.sleep(2.5)\n"
        "    dist.recv(torch.ones(1), 0)\n    handle.wait()\n"
        "else:\n    dist.recv(torch.ones(3), 1)\n    time.sleep(2.5)\n"
        "    dist.send(torch.ones(1), 1)"
    )
    assert diagnose(body).diagnosis is None
