"""One measurement fails and the others do not; a stopped record goes on; wrong options are told."""

import json
import subprocess
import sys
import time
from pathlib import Path

import pytest

from hpml.errors import DONE, FAILED, UserError
from hpml.record import command, kept

from ..waiting import gone

# In the place of `hpml.record.one`: what each measurement does is in a file, by its name.
CHILD = """
import json, subprocess, sys, time
name, folder = sys.argv[1], sys.argv[3]
does = json.load(open(sys.argv[0] + ".json")).get(name, "well")
print("    at work", flush=True)
if does == "fail":
    sys.exit("ValueError: a wrong number")
from hpml.record import kept
from pathlib import Path
if does == "hang":
    kept.Place("cpu", Path(folder), name=name).so_far({"half": 1})
    # As a job script's ranks, it is in a process group of its own.
    child = subprocess.Popen(["timeout", "600", "sleep", "600"])
    open(folder + "/pids", "w").write(str(child.pid))
    time.sleep(600)
kept.write(Path(folder), name, command="c", device="cpu", seconds=1.0, result={"one": 1})
"""


@pytest.fixture
def record(tmp_path, monkeypatch, capfd):
    """`record(OPTIONS, steps="fail")`: the exit code and the lines that were printed."""
    child = tmp_path / "child.py"
    child.write_text(CHILD)
    monkeypatch.setattr(command, "CHILD", (sys.executable, str(child)))
    out = tmp_path / "out"

    def run(*options: str, **does: str) -> tuple[int, list[str]]:
        Path(f"{child}.json").write_text(json.dumps(does))
        capfd.readouterr()
        code = command.main(["--device", "cpu", "--out", str(out), *options])
        return code, capfd.readouterr().out.splitlines()

    run.out = out
    return run


def test_a_broken_measurement_costs_only_itself(record):
    code, lines = record(steps="fail")
    assert code == FAILED
    assert [line for line in lines if "failed" in line] == [
        "    failed after 0 s: ValueError: a wrong number"
    ] or "ValueError: a wrong number" in next(line for line in lines if "failed" in line)
    assert kept.read(record.out, "roofline").result == {"one": 1}
    content = json.loads((record.out / "steps.json").read_text())
    assert content["failed"] == content["output"][-1] == "ValueError: a wrong number"
    with pytest.raises(FileNotFoundError):
        kept.read(record.out, "steps")


def test_started_again_it_goes_on_with_what_is_not_kept(record):
    record("--only", "roofline", "steps", steps="fail")
    before = (record.out / "roofline.json").stat().st_mtime_ns
    code, lines = record("--only", "roofline", "steps")
    assert code == DONE
    assert any(line.startswith("2/2 roofline: kept, of 20") for line in lines)
    assert (record.out / "roofline.json").stat().st_mtime_ns == before
    assert kept.read(record.out, "steps").result
    assert record("--only", "roofline", "--again")[0] == DONE
    assert (record.out / "roofline.json").stat().st_mtime_ns > before


def test_one_that_hangs_is_ended_with_all_that_it_started(record):
    began = time.monotonic()
    code, lines = record("--limit", "12", "--only", "steps", "roofline", steps="hang")
    assert time.monotonic() - began < 60
    assert code == FAILED
    assert "it was not done after 12 s" in next(line for line in lines if "failed" in line)
    assert "no time left" in lines[-1]
    sleeping = int((record.out / "pids").read_text())
    assert gone(sleeping)
    assert json.loads((record.out / "steps.json").read_text())["so_far"] == {"half": 1}
    assert sorted(path.name for path in record.out.iterdir()) == ["pids", "steps.json"]


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (["--only", "cooking"], "--only: 'cooking' is none of training, steps"),
        (["--limit", "3"], "--limit is 3, expected at least 10 seconds"),
        (["--device", "cuda"], "PyTorch sees no GPU here"),
        (["--images", "nowhere"], "nowhere"),
        (["--speed"], "see hpml record --help"),
    ],
)
def test_wrong_options_are_told_in_a_line(options, told, tmp_path):
    with pytest.raises(UserError, match=told) as raised:
        command.main(["--out", str(tmp_path / "out"), *options])
    assert "\n" not in str(raised.value)


def test_what_a_measurement_lacks_is_one_line():
    one = command.Measurement("n", "f", "c", 1.0, needs=("torch", "pynvml_of_the_moon"), gpus=2)
    assert command.lacking(one, 0) == (
        "it needs pynvml_of_the_moon, and Python finds no such module"
    )
    one = command.Measurement("n", "f", "c", 1.0, gpus=2)
    assert command.lacking(one, 1) == "it needs 2 GPUs, and 1 is here"
    assert command.lacking(one, 0) == command.lacking(one, 2) == ""


def test_nothing_recorded_is_told_with_the_job_that_does_it(tmp_path, monkeypatch):
    monkeypatch.setattr(kept, "SHIPPED", tmp_path / "none")
    monkeypatch.delenv(kept.OWN, raising=False)
    with pytest.raises(UserError, match=r"needs a GPU, and nothing of it was.*\./hpml record"):
        kept.recorded("roofline")
    with pytest.raises(UserError, match=r"needs 2 GPUs, and nothing of it was recorded"):
        kept.recorded("all_reduce")
    monkeypatch.setenv(kept.OWN, str(tmp_path))
    with pytest.raises(UserError, match=r"HPML_RECORDED has no roofline\.json that ended well"):
        kept.recorded("roofline")
    (tmp_path / "roofline.json").write_text("{")
    with pytest.raises(UserError, match=r"roofline\.json is not a record"):
        kept.recorded("roofline")


def test_the_tree_that_travels_is_small():
    """Tracked files and the images together: at most 64 MiB go to a machine that is lent."""
    from hpml.paths import CHECKOUT
    from hpml.record.images import LARGEST

    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=CHECKOUT,
        capture_output=True,
        check=True,
    ).stdout.split(b"\0")
    paths = [CHECKOUT / name.decode() for name in listed if name]
    size = sum(path.stat().st_size for path in paths if path.is_file())
    assert len(paths) > 500
    assert size + LARGEST < 64 * 2**20
