"""Stacks without the frames that are not the learner's."""

from hpml.checks.library_frames import folded

TRACEBACK = """Traceback (most recent call last):
  File "<ddp>", line 9, in step
    dist.all_reduce(x)
  File "/x/lib/python3.11/site-packages/torch/distributed/c10d_logger.py", line 81, in wrapper
    return func(*args, **kwargs)
           ^^^^^^^^^^^^^^^^^^^^^
  File "/x/lib/site-packages/torch/distributed/distributed_c10d.py", line 2, in all_reduce
    work = group.allreduce([tensor], opts)
RuntimeError: shapes differ"""
FAULTHANDLER = """Current thread 0x00007f (most recent call last):
  File "<string>", line 1 in <module>
  File "<frozen runpy>", line 198 in run
  File "<ddp>", line 9 in step
  File "/y/src/hpml/ranks/rank/remote_group.py", line 12 in wait
  File "/usr/lib/python3.11/threading.py", line 320 in wait"""


def test_of_a_traceback_the_answers_lines_and_the_error_are_left():
    assert folded(TRACEBACK).splitlines() == [
        "Traceback (most recent call last):",
        '  File "<ddp>", line 9, in step',
        "    dist.all_reduce(x)",
        "  … 2 frames of torch: wrapper to all_reduce",
        "RuntimeError: shapes differ",
    ]


def test_of_faulthandlers_stacks_too():
    assert folded(FAULTHANDLER).splitlines()[1:] == [
        "  … 2 frames of Python: <module> to run",
        '  File "<ddp>", line 9 in step',
        "  … 2 frames of hpml and Python: wait",
    ]


def test_other_text_is_left_as_it_is():
    assert folded("no stack\n    indented\n") == "no stack\n    indented\n"
