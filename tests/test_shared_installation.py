"""One installation for a class: this checkout, read-only, used by learners who do not own it.

For a learner it is mounted read-only, in a mount namespace of the learner's own, and they are other
users. Only root can do so.
"""

import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from hpml.course import schedule
from hpml.course.instructors.wrong_answers import solution
from hpml.paths import CHECKOUT

from . import waiting

LIMIT = 300.0  # seconds for any one thing; on an idle machine each takes a few
# Others may not enter the home folder that a Python of root's lies in: in the namespace it has
# that Python and nothing else, and may be entered.
ENTER = r"""
set -e
closed=$1 python=$2 installed=$3 learner=$4; shift 4
if [[ -n $closed ]]; then
  kept=$(mktemp -d) && mount --bind "$python" "$kept"
  mount -t tmpfs -o mode=755 none "$closed"
  mkdir -p "$python" && mount --bind "$kept" "$python"
fi
mount --bind "$installed" "$installed"
mount -o remount,bind,ro "$installed"
exec setpriv --reuid "$learner" --regid "$learner" --clear-groups \
  --inh-caps=-all --bounding-set=-all "$@"
"""


class Learner:
    """A user with an empty home, and no rights."""

    def __init__(self, user: int, home: Path) -> None:
        self.user, self.home = user, home
        self.copy = home / "day 2"
        home.mkdir()
        os.chown(home, user, user)

    def command(self, *words: str | Path) -> list[str]:
        python = Path(sys.base_prefix)
        closed = [p for p in python.parents if p != Path("/") and not p.stat().st_mode & 0o001]
        enter = ["unshare", "--mount", "--propagation", "private", "bash", "-c", ENTER, "-"]
        outermost = str(closed[-1]) if closed else ""
        return [*enter, outermost, sys.base_prefix, str(CHECKOUT), str(self.user), *map(str, words)]

    def options(self) -> dict:
        own = {"HOME": str(self.home), "HPML_SERVER": "off", "LANG": "C.UTF-8"}
        return {
            "env": {**own, "PATH": "/usr/local/bin:/usr/bin:/bin"},
            "cwd": self.copy if self.copy.exists() else self.home,
            "stdin": subprocess.DEVNULL,
            "text": True,
        }

    def run(self, *words: str | Path) -> str:
        """What it prints; it has to end well."""
        done = subprocess.run(
            self.command(*words), capture_output=True, timeout=LIMIT, **self.options()
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    @contextlib.contextmanager
    def running(self, *words: str | Path) -> Iterator[Path]:
        """The file that a command writes to while the block runs.

        Ctrl-C ends it. A JupyterLab without a terminal may then wait for a thread for ever.
        """
        log = self.home / "log"
        with log.open("w") as out:
            process = subprocess.Popen(
                self.command(*words), stdout=out, stderr=out, start_new_session=True,
                preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL), **self.options(),
            )  # fmt: skip
        try:
            yield log
        finally:
            os.killpg(process.pid, signal.SIGINT)
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(timeout=10)
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()


@pytest.fixture(scope="module")
def class_() -> Iterator[list[Learner]]:
    if os.geteuid() != 0:
        pytest.skip("only root can be another user")
    if not Path(sys.prefix).is_relative_to(CHECKOUT):
        pytest.skip("the environment is not the checkout's own")
    homes = Path(tempfile.mkdtemp(prefix="hpml-class-"))  # pytest's own folder is root's alone
    homes.chmod(0o755)
    try:
        yield [Learner(4242 + number, homes / f"learner {number}") for number in range(2)]
    finally:
        shutil.rmtree(homes)


@pytest.fixture(scope="module")
def learner(class_) -> Learner:
    one = class_[0]
    assert "are yours" in one.run(CHECKOUT / "hpml", "copy", one.copy)
    return one


def test_nothing_can_be_written_in_the_installation(learner):
    for folder in (CHECKOUT, CHECKOUT / "exercises", Path(sys.prefix)):
        with pytest.raises(AssertionError, match="Read-only file system"):
            learner.run("touch", folder / "hpml-canary")


def test_a_copy_is_what_is_written_to_and_few_files(learner):
    files = [path for path in learner.copy.rglob("*") if path.is_file() and not path.is_symlink()]
    assert len(files) < 120
    assert sum(path.stat().st_size for path in files) < 20e6
    assert {path.stat().st_uid for path in files} == {learner.user}
    assert "0 files" in learner.run(CHECKOUT / "hpml", "copy", learner.copy)


def test_two_learners_check_their_answers_at_once(class_, learner):
    other = class_[1]
    other.run(CHECKOUT / "hpml", "copy", other.copy)
    right = solution(schedule.load(), "amdahl")

    def check(one: Learner) -> dict:
        (one.copy / "mine.py").write_text(f"# %%\n# {right}\n")
        command = ("./hpml", "check", "mine.py", "--json")
        done = subprocess.run(
            one.command(*command), capture_output=True, timeout=LIMIT, **one.options()
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return json.loads(done.stdout)[0]

    with ThreadPoolExecutor() as pool:
        verdicts = list(pool.map(check, (learner, other)))
    assert [(one["exercise"], one["status"]) for one in verdicts] == [("amdahl", "passed")] * 2
    for one in (learner, other):
        assert (one.copy / ".hpml" / "progress.json").stat().st_uid == one.user
        assert "✓ amdahl" in one.run("./hpml", "list")


def test_what_was_written_over_is_restored_from_the_installation(learner):
    script = learner.copy / "exercises" / "02_hardware.py"
    script.write_text("spoilt")
    assert "yours is exercises/02_hardware.mine-1.py" in learner.run(
        "./hpml", "restore", "exercises/02_hardware.py"
    )
    assert script.read_bytes() == (CHECKOUT / "exercises" / "02_hardware.py").read_bytes()


def test_ranks_of_a_cell_run_and_see_the_copy(learner):
    cells = ["%load_ext hpml", "%%ranks 2\nfrom hpml.paths import CHECKOUT\nprint(CHECKOUT)"]
    program = f"""
from IPython.core.interactiveshell import InteractiveShell
shell = InteractiveShell()
for cell in {cells!r}:
    shell.run_cell(cell).raise_error()
"""
    (learner.copy / "cell.py").write_text(program)
    found = learner.run("env", f"PYTHONPATH={learner.copy}/src", ".venv/bin/python", "cell.py")
    assert [f"[{rank}] {learner.copy}" in found for rank in range(2)] == [True, True]


def test_a_kernel_for_a_hub_is_the_copys(learner):
    where = learner.run("./hpml", "kernel", "install").partition(": choose")[0]
    kernel = json.loads((Path(where) / "kernel.json").read_text())
    assert kernel["argv"][0] == f"{learner.copy}/.venv/bin/python"
    assert kernel["env"]["PYTHONPATH"] == f"{learner.copy}/src"


def test_job_scripts_are_the_learners_and_the_sites_settings_the_installations(learner):
    assert learner.run("./hpml", "submit", "00", "--dry-run") == "sbatch slurm/00_hello.slurm\n"
    assert (learner.copy / "slurm" / "site.sh").resolve() == CHECKOUT / "slurm" / "site.sh"


@pytest.mark.measures
def test_watch_judges_what_is_saved(learner):
    script = learner.copy / "exercises" / "01_parallel_sgd.py"
    with learner.running("./hpml", "watch", "amdahl") as log:
        waiting.until(lambda: "Ctrl-C" in log.read_text(), "its first verdict", LIMIT)
        text = script.read_text()
        stub = text[text.index("%%answer amdahl") :]
        changed = stub.replace("raise NotImplementedError()", "return 1.0", 1)
        script.write_text(text.replace(stub, changed))
        waiting.until(lambda: re.search(r"amdahl.*0 of \d+ points", log.read_text()), "it", LIMIT)


@pytest.mark.measures
def test_jupyterlab_has_the_copys_notebooks(learner):
    words = ("./hpml", "lab", "--no-browser", "--port=0")
    with learner.running(*words) as log:
        found = waiting.until(
            lambda: re.search(r"(http://localhost:\d+)/lab\S*(\?token=\w+)", log.read_text()),
            "JupyterLab",
            LIMIT,
        )
        with urllib.request.urlopen(f"{found[1]}/api/contents/notebooks{found[2]}") as answer:
            listed = json.load(answer)
    names = {entry["name"] for entry in listed["content"] if entry["type"] == "notebook"}
    assert names >= {path.name for path in (CHECKOUT / "notebooks").glob("*.ipynb")}
    assert listed["writable"]


@pytest.mark.measures
def test_tensorboard_shows_logs_of_the_copy(learner):
    program = "from torch.utils.tensorboard import SummaryWriter\n"
    program += "with SummaryWriter('.hpml/logs/run') as log: log.add_scalar('loss', 1.0, 0)"
    (learner.copy / "log.py").write_text(program)
    learner.run(".venv/bin/python", "log.py")
    with learner.running("./hpml", "tensorboard", "--port", "0") as log:
        found = waiting.until(
            lambda: re.search(r"http://\S+", log.read_text()), "TensorBoard", LIMIT
        )
        with urllib.request.urlopen(f"{found[0].rstrip('/')}/data/runs") as answer:
            assert json.load(answer) == ["run"]
