"""What a library that is not there is told by: one line with the remedy."""

import importlib.util

from hpml.modules.m04_frameworks.lecture import optional


def test_where_it_is_missing_the_remedy_is_one_line(monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
    assert optional.missing("jax").endswith("pip install -e '.[jax]'")
    assert "\n" not in optional.missing("triton")


def test_what_is_there_is_not_missing():
    assert optional.missing("torch") == ""
