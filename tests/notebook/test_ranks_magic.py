"""The notebook's magics, in a real IPython shell."""

import dataclasses
import os
from types import SimpleNamespace

import nbformat
import pytest

from hpml import cli, notebook
from hpml.checks.verdict import ClaimResult, Verdict
from hpml.course import progress, schedule
from hpml.notebook import ranks_magic
from hpml.ranks import flavour, launch

WHY = flavour.missing("horovod")


def test_each_ranks_output_and_last_expression_are_marked(run):
    out, error = run("%%ranks 2\nprint('I am', rank)\nworld_size * 10")
    assert error is None
    assert out == "[0] I am 0\n[0] 20\n[1] I am 1\n[1] 20\n"


def test_a_flood_of_lines_is_cut_and_counted(run):
    for live in ("", " --live"):
        out, _ = run(f"%%ranks 1{live}\nfor k in range(1500):\n    print(k)")
        lines = out.splitlines()
        assert lines[999] == "[0] 999"
        assert len(lines) == 1001
        assert "left out here" in lines[1000]


def test_a_cell_sees_the_notebooks_names_and_functions(run, shell):
    run("factor = 3\ndef times(x):\n    return factor * x")
    out, _ = run("%%ranks 2\ntimes(rank + 1)")
    assert out == "[0] 3\n[1] 6\n"


def test_out_brings_variables_back_by_rank_and_changes_no_others(run, shell):
    run("mine = 'here'")
    _, error = run("%%ranks 3 --out square\nmine = 'there'\nsquare = rank ** 2")
    assert error is None
    assert shell.user_ns["square"] == [0, 1, 4]
    assert shell.user_ns["mine"] == "here"


def test_collectives_are_there_and_evidence_is_kept(run, shell):
    run("%%ranks 2 --evidence seen\nimport torch.distributed as dist\ndist.barrier()")
    calls = [(call.operation, call.line) for call in shell.user_ns["seen"].ranks[1].calls]
    assert calls == [("barrier", 3)]


def test_a_profiler_prints_nothing_of_its_own_beside_the_cells_output(run):
    cell = """%%ranks 1
from torch.profiler import profile, schedule
with profile(schedule=schedule(wait=0, warmup=1, active=1, repeat=1)) as profiler:
    for _ in range(2):
        profiler.step()
print("done")"""
    out, error = run(cell)
    assert error is None
    assert out == "[0] done\n"


def test_a_hang_is_one_sentence_with_the_cells_lines(run):
    _, error = run("%%ranks 2\nimport torch.distributed as dist\nif rank:\n    dist.barrier()")
    assert str(error) == (
        "rank 1 waits in barrier (call 1, line 4 of the cell); "
        "rank 0 has made no call at all and returned"
    )
    assert error._render_traceback_() == [str(error)]


def test_a_syntax_error_names_its_line(run):
    _, error = run("%%ranks 2\nx = = 1")
    assert str(error) == "ranks 0 and 1 raised SyntaxError: invalid syntax (line 2 of the cell)"


def test_a_link_is_a_network_and_its_traffic_is_evidence(run, shell):
    cell = "import torch, torch.distributed as dist\ndist.all_reduce(torch.ones(250_000))\nrank"
    out, error = run(f"%%ranks 2 --link 1gbit --evidence wire\n{cell}")
    assert error is None
    assert out == "[0] 0\n[1] 1\n"
    evidence = shell.user_ns["wire"]
    assert evidence.link.rate == 10**9
    assert all(rank.traffic.sent_bytes > 10**6 for rank in evidence.ranks)


def test_where_no_network_can_be_emulated_the_cell_runs_and_one_line_says_so(run, monkeypatch):
    def without(*arguments, link=None, **options):
        return dataclasses.replace(launch(*arguments, **options), no_link="namespaces are off")

    monkeypatch.setattr(ranks_magic, "launch", without)
    out, error = run("%%ranks 1 --link 1gbit\nrank")
    assert error is None
    assert out == (
        "The network is not emulated, and nothing limits its rate: namespaces are off.\n[0] 0\n"
    )


def test_a_rank_may_use_so_much_memory_and_no_more(run, shell):
    cell = "import torch\nheld = torch.ones({})"
    out, error = run(f"%%ranks 1 --memory 100mb --evidence seen\n{cell.format(10_000_000)}")
    assert error is None
    assert out.startswith("Each rank may use 100 MB, kept to it by a ")
    assert shell.user_ns["seen"].ranks[0].live.highest["other"] == 40_000_000
    _, error = run(f"%%ranks 1 --memory 100mb\n{cell.format(30_000_000)}")  # 120 MB
    assert "ran out of its 100 MB at line 3 of the cell, in " in str(error)


def test_tensors_by_kind_are_in_the_evidence_where_they_are_asked_for(run, shell):
    cell = "from torch import nn\nlayer = nn.Linear(1000, 1000, bias=False)"
    run(f"%%ranks 2 --evidence seen --live-tensors\n{cell}")
    assert [r.live.highest["parameters"] for r in shell.user_ns["seen"].ranks] == [4_000_000] * 2
    run(f"%%ranks 2 --evidence seen\n{cell}")
    assert shell.user_ns["seen"].ranks[0].live is None


def test_live_output_comes_in_whole_lines(run):
    out, _ = run("%%ranks 1 --live\nimport sys\nsys.stdout.write('a')\nprint('b')")
    assert out == "[0] ab\n"


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("%%ranks", "required: world_size"),
        ("%%ranks four", "invalid int value: 'four'"),
        ("%%ranks 1 --timeout nan", "argument --timeout: nan: give a number of seconds, more"),
        ("%%ranks 1 --timeout 0", "argument --timeout: 0: give a number of seconds, more than 0"),
        ("%%ranks 1 --threads 0", "argument --threads: 0: give a whole number from 1 on"),
        ("%%ranks 1 --out 'a", "%%ranks 1 --out 'a: no closing quotation"),
        ("%%ranks 0", "world size 0"),
        ("%%ranks 65", "world size 65"),
        ("%%ranks 2 --link 1gbps", "link '1gbps' is not a rate"),
        ("%%ranks 2 --link 0", "link '0' is not a rate"),
        ("%%ranks 2 --link", "argument --link: expected one argument"),
        ("%%ranks 2 --link -1gbit", "link '-1gbit' is not a rate"),
        ("%%ranks 3 --link nodes=2x2,intra=1gbit,inter=1gbit", "4 ranks, and 3 were asked for"),
        ("%%ranks 2 --memory 600", "memory '600': give a size, as in 600mb"),
        ("%%ranks 2 --memory 1mb", "give 16 MB or more for each rank"),
        ("%%ranks 2 --memory", "argument --memory: expected one argument"),
        ("%%answer", "name the exercise"),
        ("%%answer dpp", "did you mean ddp?"),
    ],
)
def test_wrong_usage_is_one_line(run, shell, capsys, line, says):
    shell.run_cell(f"{line}\n1")
    assert says in capsys.readouterr().err


def test_what_cannot_be_sent_is_named(run, shell, capsys):
    run("import threading\nlock = threading.Lock()")
    shell.run_cell("%%ranks 1\nlock")
    assert "lock is a lock, which cannot be sent" in capsys.readouterr().err


def test_what_cannot_be_sent_may_be_made_in_the_cell(run):
    run("import threading\nlock = threading.Lock()")
    printed, error = run("%%ranks 1\nwith open('/dev/null') as lock:\n    pass\nlock.closed")
    assert error is None
    assert "True" in printed


def test_out_of_a_name_that_is_not_set_is_told(run):
    _, error = run("%%ranks 1 --out missing\n1")
    assert "--out names missing" in str(error)


def test_check_before_the_answer_says_which_cell_to_run(run):
    notebook._answers.clear()
    _, error = run("check('global_metrics')")
    assert str(error) == (
        "global_metrics: this kernel has no answer yet: run the cell that begins with "
        "%%answer global_metrics, then this one"
    )


def test_an_answer_that_imports_what_it_may_not_ends_with_the_sentence_of_the_check(run):
    _, error = run("%%answer hello_ranks\nimport torch\nfrom hpml.ranks import mark")
    assert str(error) == (
        "line 3 of your answer imports hpml.ranks; an answer may import Python's standard library, "
        "numpy, torch and tqdm"
    )
    out, error = run("from hpml.ranks import mark\nprint(mark.__name__)")  # a cell of their own
    assert (out, error) == ("mark\n", None)


def test_the_answer_run_last_counts_and_its_names_are_there(run, shell):
    run("%%answer hello_ranks\nfirst = 1")
    run("%%answer hello_ranks\nsecond = 2\ndef inner():\n    return second")
    assert shell.user_ns["second"] == 2
    assert shell.user_ns["inner"]() == 2
    assert "second" in notebook._answers["hello_ranks"].source


def test_ranks_have_what_an_answer_defines(run):
    run("%%answer hello_ranks\noffset = 2\ndef further(number):\n    return number + offset")
    out, _ = run("%%ranks 2\nfurther(rank)")
    assert out == "[0] 2\n[1] 3\n"


def test_an_answer_runs_as_a_module_so_its_main_does_not_start(run):
    out, _ = run("%%answer hello_ranks\nif __name__ == '__main__':\n    print('started')")
    assert out == ""


def test_an_answer_that_takes_a_horovod_that_is_not_there_is_taken_and_not_run(run, monkeypatch):
    monkeypatch.setattr(flavour, "missing", lambda needs: f"no {needs}")
    out, _ = run("%%answer hvd_torch\nimport horovod.torch as hvd\nprint('run')")
    assert out == "The answer is taken, and not run here: no horovod\n"
    assert "hvd_torch" in notebook._answers
    _, error = run('check("hvd_torch")')
    assert str(error).startswith(
        "hvd_torch could not be graded, which is not your answer's fault: "
    )
    assert str(error).endswith("no horovod")


def test_a_syntax_error_is_four_lines_and_the_answer_is_taken(run):
    _, shown = run("%%answer hello_ranks\ndef broken(:")
    assert shown._render_traceback_() == [
        "line 2 | def broken(:\n                    ^\nSyntaxError: invalid syntax"
    ]
    _, error = run("check('hello_ranks')")
    assert isinstance(error, notebook.NotYet)
    assert str(error).splitlines() == [
        "hello_ranks: not valid Python",
        "line 2 | def broken(:",
        "                    ^",
        "SyntaxError: invalid syntax",
    ]


def test_an_exception_of_an_answer_is_shown_without_the_frames_that_ran_it(run):
    _, error = run(
        "%%answer hello_ranks\nimport json\ndef hello(n):\n    return json.loads('x')\nhello(1)"
    )
    (shown,) = error._render_traceback_()
    assert shown.splitlines()[:4] == [
        "Traceback (most recent call last):",
        '  File "<hello_ranks>", line 5, in <module>',
        "    hello(1)",
        '  File "<hello_ranks>", line 4, in hello',
    ]
    assert "… 3 frames of Python: loads to raw_decode" in shown
    assert "hpml/" not in shown


def test_an_interrupted_check_is_one_line(run, monkeypatch):
    def interrupted(*_, **__):
        raise KeyboardInterrupt

    run("%%answer hello_ranks\ndef hello(number):\n    return number")
    monkeypatch.setattr("hpml.checks.judge", interrupted)
    _, error = run("check('hello_ranks')")
    assert error._render_traceback_() == ["hello_ranks: interrupted, and not judged"]


def test_which_text_is_judged_is_named_where_it_may_not_be_the_cells(run, tmp_path, monkeypatch):
    shell = SimpleNamespace(execution_count=1)
    taken = notebook.Taken.now("hello_ranks", "# %%answer hello_ranks\nx = 1\n", shell)
    shell.execution_count = 2
    assert taken.note(shell) == ""  # it was run just before
    shell.execution_count = 3
    when = f"judged: the answer that was run at {taken.at:%H:%M}"
    assert taken.note(shell) == f"{when}; if you have edited its cell since, run the cell first."
    cell = nbformat.v4.new_code_cell("%%answer hello_ranks\nx = 2")
    path = tmp_path / "mine.ipynb"
    nbformat.write(nbformat.v4.new_notebook(cells=[cell]), path)
    monkeypatch.setenv("JPY_SESSION_NAME", str(path))
    later = taken.at.timestamp() + 5
    os.utime(path, (later, later))  # saved after it was run
    shell.execution_count = 2
    assert taken.note(shell) == (
        f"{when}. Its cell was edited since: run the cell, then check again."
    )
    os.utime(path, (later - 10, later - 10))  # saved before: nothing is known
    assert taken.note(shell) == ""


def test_a_check_of_nothing_is_of_the_answer_that_was_run_last(run):
    run("%%answer read_queue\ndef broken(:")
    run("%%answer hello_ranks\ndef broken(:")
    run("%%answer read_queue\ndef broken(:")
    _, error = run("check()")
    assert str(error).startswith("read_queue: not valid Python")
    notebook._answers.clear()
    assert "this kernel has no answer yet" in str(run("check()")[1])


def test_a_failed_check_tells_how_to_repeat_it(run):
    run("%%answer hello_ranks\ndef nothing():\n    pass")
    _, error = run("check('hello_ranks', seed=5)")
    assert 'check("hello_ranks", seed=5)' in str(error)


def test_a_notebook_has_the_hints_of_the_terminal_and_they_go_on_in_either(run, capsys):
    run("check._last = ''")
    _, error = run("check.hint()")
    assert str(error) == 'nothing was checked here yet: name the exercise, check.hint("ddp")'
    _, error = run("check.hint('ddpp')")
    assert "did you mean ddp?" in str(error)
    run("%%answer read_queue\ndef broken(:")
    run("check('read_queue')")
    first, _ = run("check.hint()")
    assert first.endswith('\n\n2 more: check.hint("read_queue")\n')
    run("check('hello_ranks')")  # what is named counts, whatever was checked last
    with pytest.raises(SystemExit):
        cli.main(["hint", "read_queue"])
    assert "1 more: ./hpml hint read_queue" in capsys.readouterr().out
    third, _ = run("check.hint('read_queue')")
    assert "more:" not in third
    assert progress.read()["read_queue"]["read_hints"] == ["start", "second", "nearly"]
    assert run("check.hint('read_queue')")[0].startswith("That was the last one.")


def test_a_notebook_has_the_courses_answer_and_compares_it_with_the_cell_that_was_run(run):
    run("%%answer job_script\ndef mine():\n    return 1")
    _, error = run("check.answer('job_script')")
    assert (
        str(error)
        == 'job_script has not passed yet, and 3 hints are left: check.hint("job_script")'
    )
    for _ in range(3):
        run("check.hint('job_script')")
    shown, _ = run("check.answer('job_script')")
    assert "The course's own answer to job_script:" in shown
    assert "-def mine():" in shown.splitlines()


def test_each_exercise_notebook_says_how_to_get_a_hint():
    course = schedule.load()
    for module in course.modules:
        text = (course.root / module.exercise_notebook).read_text(encoding="utf-8")
        assert "Stuck? `check.hint()` in a cell of your own" in text, module.exercise_notebook


def test_a_claim_that_this_machine_cannot_judge_is_no_error(run, monkeypatch):
    verdict = Verdict(
        "hello_ranks",
        "Hello",
        "not gradable",
        (ClaimResult("it runs", True, 1), ClaimResult("few bytes", False, 1, "x", judged=False)),
        "1 of 2 claims hold, 1 cannot be judged here",
        1,
    )
    monkeypatch.setattr("hpml.checks.judge", lambda *_, **__: verdict)
    run("%%answer hello_ranks\ndef nothing():\n    pass")
    out, error = run("check('hello_ranks')")
    assert error is None
    assert "1 cannot be judged here" in out


@pytest.mark.skipif(WHY is not None, reason=str(WHY))
@pytest.mark.xdist_group("horovod")
def test_ranks_talk_through_horovod_where_that_is_asked_for(run):
    out, error = run(
        "%%ranks 2 --horovod --env HOROVOD_CYCLE_TIME=2 --env NAME=a=b\n"
        "import os, torch, horovod.torch as hvd\n"
        "total = hvd.allreduce(torch.tensor([float(rank)]), op=hvd.Sum)\n"
        "[rank, world_size, total.item(), os.environ['HOROVOD_CYCLE_TIME'], os.environ['NAME']]"
    )
    assert error is None
    assert out == "[0] [0, 2, 1.0, '2', 'a=b']\n[1] [1, 2, 1.0, '2', 'a=b']\n"


@pytest.mark.xdist_group("tensorflow")
@pytest.mark.skipif(flavour.missing("tensorflow") is not None, reason="no TensorFlow")
def test_ranks_have_tensorflow_where_that_is_asked_for(run):
    out, _ = run(
        "%%ranks 1 --no-group --tensorflow\n"
        "import sys, tensorflow as tf\n"
        "print([int(n) for n in tf.data.Dataset.range(rank, 3)], 'horovod' in sys.modules)"
    )
    assert out == "[0] [0, 1, 2] False\n"


@pytest.mark.parametrize("line", ["2 --horovod jax", "2 --env NAME", "2 --env =1"])
def test_what_cannot_be_meant_is_a_usage_error(run, line):
    _, error = run(f"%%ranks {line}\nrank")
    assert type(error).__name__ == "UsageError"
    assert line.split()[-1] in str(error)


STUCK = """%%answer naive_all_reduce
import torch.distributed as dist

def naive_all_reduce(tensor):
    if dist.get_world_size() > 1:
        dist.recv(tensor, (dist.get_rank() + 1) % dist.get_world_size())
    return tensor
"""


@pytest.mark.parametrize(
    ("answer", "shown"),
    [
        (STUCK, ["4 of 4 ranks stop after 0 messages have arrived"]),
        ("%%answer naive_all_reduce\ndef other(): ...", []),
    ],
)
def test_check_shows_an_all_reduce_at_work_unless_it_did_not_run(run, monkeypatch, answer, shown):
    displayed = []
    monkeypatch.setattr(notebook, "display", lambda bundle, **_: displayed.append(bundle))
    run(answer)
    _, error = run("check('naive_all_reduce')")
    assert isinstance(error, notebook.NotYet)
    pictures = [bundle for bundle in displayed if "image/png" in bundle]
    assert [bundle["text/plain"] for bundle in pictures] == shown
