"""Benchmarks as they are typed, but small."""

from collections.abc import Callable
from importlib import import_module
from typing import Any

import pytest
from typer.testing import CliRunner

from hpml.cli.instructors import bench_grading_command

PLACES = {name: f"instructors.{name}" for name in ("attacks", "flips", "grade")}


@pytest.fixture
def bench_command(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    """`bench_command("network", "--rounds", "1", rates=["10mbit"])` is the table that
    `./hpml bench network --rounds 1` has made and shown; what has no option is made smaller.
    """

    def run(name: str, *options: str, **smaller: Any) -> Any:
        module, made = import_module(f"hpml.bench.{PLACES.get(name, name)}"), []
        whole = module.bench

        def bench(*given: Any, **named: Any) -> Any:
            made.append(whole(*given, **named, **smaller))
            return made[0]

        monkeypatch.setattr(module, "bench", bench)
        ended = CliRunner().invoke(
            bench_grading_command.app, [name, *options], catch_exceptions=False
        )
        assert ended.exit_code == 0, ended.output
        (table,) = made
        assert table.title in ended.output
        return table

    return run
