"""./hpml race as it is typed."""

from dataclasses import replace

import pytest

from hpml import cli
from hpml.train.race import start, tries
from hpml.train.race.goals import GOALS, Goal
from hpml.train.race.switches import Switches

TINY = Goal("laptop", 0.0, 64, 20, (8, 8), Switches(batch=16, epochs=2), 240.0)


@pytest.fixture
def race(tmp_path, monkeypatch, capfd):
    """`race("--show")` runs the command, with a tiny goal; returns exit code, output, errors."""
    monkeypatch.setenv("HPML_HOME", str(tmp_path / "home"))
    monkeypatch.setattr(start, "LOOKED", 0.01)
    monkeypatch.setitem(GOALS, "laptop", TINY)
    monkeypatch.delenv("HPML_BOARD", raising=False)

    def run(*arguments: str) -> tuple[int, str, str]:
        with pytest.raises(SystemExit) as exit_:
            cli.main(["race", "--goal", "laptop", *arguments])
        return exit_.value.code, *capfd.readouterr()

    return run


def test_a_try_is_run_kept_drawn_and_put_on_the_board(race, tmp_path):
    shared = tmp_path / "shared"
    shared.mkdir()
    code, out, err = race("--board", str(shared), "--name", "ada", "--loader", "batch")
    assert (code, err) == (0, "")
    assert "Goal laptop: 0% of 20 test images. Settings: all off, but loader batch" in out
    assert "SYNTHETIC images" in out
    assert "reached" in out
    assert (tmp_path / "home/race/chart.png").read_bytes().startswith(b"\x89PNG")
    assert [one.status for one in tries.read()[0]] == ["reached"]
    assert out.splitlines()[-1].split()[3:6] == ["ada", "loader", "batch"]

    code, out, _ = race("--show", "--chart", str(tmp_path / "mine.pdf"))
    assert code == 0
    assert "*  1" in out
    assert (tmp_path / "mine.pdf").exists()


def test_from_the_best_try_the_next_switch_is_turned(race, monkeypatch):
    began = []

    def run_try(goal, switches, data, report):
        began.append(switches)
        one = tries.Try("laptop", 0.0, switches, synthetic=True, device="cpu", id=str(len(began)))
        one = replace(one, status="reached", points=(tries.Point(64, 9.0 - len(began), 0.5),))
        tries.append(one)
        return one

    monkeypatch.setattr(start, "run_try", run_try)
    code, _, err = race("--from-best")
    assert code == 2
    assert err == (
        "hpml: --from-best: no try has reached 0% of 20 test images yet: "
        "leave it out for the first\n"
    )
    race("--batch", "32")
    _, out, _ = race("--from-best", "--ranks", "2")
    assert began[-1] == replace(TINY.off, batch=32, ranks=2)
    assert "Settings: your best try, but ranks 2" in out
    assert "This try is 1.14 times as fast as the other (8.0 s)" in out


def test_an_interrupted_try_is_said_to_be_recorded(race, monkeypatch):
    def run_try(*arguments):
        raise KeyboardInterrupt

    monkeypatch.setattr(start, "run_try", run_try)
    code, out, err = race()
    assert code == 130
    assert "The try is recorded as interrupted." in out
    assert err == "hpml: interrupted\n"


def test_before_the_first_try_there_is_nothing_to_show(race):
    code, out, _ = race("--show")
    assert code == 0
    assert out == "No try for goal laptop yet: ./hpml race makes one.\n"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--loader", "files"], "--loader is 'files', expected one of images, batch, ahead"),
        (["--ranks", "3"], "--batch is 16, which 3 ranks cannot share evenly"),
        (["--ranks", "two"], "'--ranks'"),
        (["--turbo"], "--turbo"),
        (["--goal", "phone"], "--goal is 'phone', expected one of laptop, full"),
        (["--show", "--ranks", "2"], "--show makes no new try: leave out --ranks, or --show"),
        (["--board", "/nowhere"], "--board /nowhere is not a folder: make it first"),
    ],
)
def test_what_cannot_be_is_one_line(race, arguments, words):
    code, out, err = race(*arguments)
    assert (code, out) == (2, "")
    assert words in err
    assert len(err.splitlines()) == 1
    assert tries.read() == ([], 0)


def test_more_ranks_than_gpus_are_refused(race, monkeypatch):
    monkeypatch.setattr(start, "gpus", lambda: 1)
    _, _, err = race("--ranks", "2")
    assert err == "hpml: --ranks is 2, and this machine has 1 GPU: each rank needs its own\n"
