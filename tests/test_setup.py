"""The script `hpml`: what it sets up, when, and what it says when it cannot.

A small stand-in for Python takes the place of the real one: it makes environments out of itself,
writes down what pip was asked to do, and so shows in milliseconds what really takes minutes.
"""

import os
import shutil
import signal
import subprocess
import time
from pathlib import Path

import psutil
import pytest

import hpml
from hpml.horovod import state
from hpml.horovod.state import State
from hpml.paths import CHECKOUT

STAND_IN = r"""#!/usr/bin/env bash
# Python 3.11 as far as ./hpml can tell; files `too_old`, `too_new` and `no_venv` beside it say
# otherwise.
here=$(dirname "$0")
echo "$0 $*" >>"$LOG"
case "$1 ${2:-}" in
  "--version ") echo "Python 3.11.9" ;;
  "-c "*sys.version.split*) [[ ! -e $here/too_new ]] || echo 3.13.5 ;;
  "-c "*version_info*) [[ ! -e $here/too_old && ! -e $here/too_new ]] ;;
  "-c "*ensurepip*) [[ ! -e $here/no_venv ]] ;;
  "-m venv") mkdir -p "$3/bin" "$3/lib/python3.11/site-packages"; cp "$0" "$3/bin/python" ;;
  "-m pip")
    echo "pip talks"
    site=$(dirname "$here")/lib/python3.11/site-packages
    if [[ $3 == install && $* == *requirements.lock* ]]; then
      ls "$site" >>"$LOG.site"
      mkdir -p "$site/half.dist-info"
      [[ ! -e $LOG.hang ]] || { rm "$LOG.hang"; : >"$LOG.hanging"; exec sleep 60; }
      [[ ! -e $LOG.fail ]] || { rm "$LOG.fail"; exit 1; }
      : >"$site/half.dist-info/INSTALLER"
    fi ;;
  "-m hpml.horovod")
    echo "Horovod talks"
    [[ ! -e $LOG.hang_horovod ]] || { : >"$LOG.hanging"; exec sleep 60; }
    exit "${HOROVOD:-0}" ;;
  "-m hpml")
    printf %s "${PYTHONPATH:-}" >"$LOG.path"
    shift 2; printf '<%s>' "$@"; exit "${CODE:-0}" ;;
esac
"""
# What the script calls besides Python; a PATH with just these has no Python at all.
TOOLS = ("bash", "env", "dirname", "basename", "mkdir", "rm", "cp", "ls", "flock", "sleep", "c++",
         "readlink")  # fmt: skip


# A change in any of these sets up again.
RECIPE = ("requirements.lock", "pyproject.toml", "src/hpml/horovod/horovod-0.28.1.patch")


class Machine:
    """A checkout in a folder of its own, on a machine with only `TOOLS` and the stand-in."""

    def __init__(self, folder: Path):
        self.root = folder / "check out"  # a blank, as in many people's folders
        self.bin = folder / "bin"
        self.log = folder / "log"
        self.root.mkdir()
        self.bin.mkdir()
        for name in ("hpml", *RECIPE):
            (self.root / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(CHECKOUT / name, self.root / name)
        for tool in TOOLS:
            if path := shutil.which(tool):
                (self.bin / tool).symlink_to(path)
        self.environment = {"PATH": str(self.bin), "LOG": str(self.log)}

    def add_python(self, folder: Path | None = None, name: str = "python3.11") -> Path:
        python = (folder or self.bin) / name
        python.parent.mkdir(parents=True, exist_ok=True)
        python.write_text(STAND_IN)
        python.chmod(0o755)
        return python

    def add_environment(self, name: str, version: str = "3.11") -> Path:
        folder = self.root.parent / name
        (folder / "lib" / f"python{version}" / "site-packages").mkdir(parents=True)
        self.add_python(folder / "bin", "python")
        return folder

    def command(self, *arguments: str) -> list[str]:
        return [str(self.bin / "bash"), str(self.root / "hpml"), *arguments]

    def run(self, *arguments: str, **environment: str) -> subprocess.CompletedProcess:
        return subprocess.run(
            self.command(*arguments),
            env=self.environment | environment,
            cwd="/",
            capture_output=True,
            text=True,
            timeout=60,
        )

    def start(self, *arguments: str) -> subprocess.Popen:
        return subprocess.Popen(
            self.command(*arguments),
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
            # Whatever runs these tests in the background may have told them to ignore it.
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
        )

    def mark(self, what: str) -> Path:
        return Path(f"{self.log}.{what}")

    def installs(self) -> int:
        """How often requirements.lock was installed since last asked."""
        log = self.log.read_text() if self.log.exists() else ""
        self.log.write_text("")
        return sum(
            "pip install" in line and "requirements.lock" in line for line in log.split("\n")
        )


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


@pytest.fixture
def with_python(machine: Machine) -> Machine:
    machine.add_python()
    return machine


def wait_for(path: Path) -> None:
    for _ in range(3000):
        if path.exists():
            return
        time.sleep(0.01)
    pytest.fail(f"{path.name} did not come")


def is_flock(process: psutil.Process) -> bool:
    try:
        return process.name() == "flock"
    except psutil.NoSuchProcess:  # another child of the script, which has just ended
        return False


def wait_until_blocked(script: subprocess.Popen) -> None:
    """Wait until the script stands in flock, and so is waiting for another one."""
    for _ in range(3000):
        if any(is_flock(child) for child in psutil.Process(script.pid).children()):
            break
        assert script.poll() is None, "the script did not wait"
        time.sleep(0.01)
    else:
        pytest.fail("the script did not wait")
    assert "waiting" in script.stderr.readline()


def test_first_run_makes_an_environment_and_installs_then_runs_the_command(with_python):
    done = with_python.run("check", "my answers.py")
    assert done.returncode == 0, done.stderr
    assert done.stdout == "<check><my answers.py>"  # set-up speaks on stderr
    log = with_python.log.read_text()
    assert f"-m venv {with_python.root}/.venv" in log
    lock, package = (line for line in log.splitlines() if "pip install" in line)
    assert lock.endswith(f"-r {with_python.root}/requirements.lock")
    assert "--no-deps" in package
    assert package.endswith(f"--editable {with_python.root}")
    assert "usually" in done.stderr


def test_with_nothing_to_do_set_up_is_silent(with_python):
    with_python.run()
    with_python.installs()
    shutil.rmtree(with_python.root / ".hpml")
    done = with_python.run("list")
    assert (done.stdout, done.stderr) == ("<list>", "")
    assert with_python.log.read_text() == f"{with_python.root}/.venv/bin/python -m hpml list\n"
    assert not (with_python.root / ".hpml").exists()


def test_packages_are_compiled_once_on_all_cores(with_python):
    with_python.run("list")
    log = with_python.log.read_text()
    site = with_python.root / ".venv" / "lib" / "python3.11" / "site-packages"
    lock = next(line for line in log.splitlines() if "requirements.lock" in line)
    assert "--no-compile" in lock
    assert log.count("compileall") == 1
    assert f"-m compileall -qq -j 0 {site} {with_python.root}/src\n" in log
    assert log.index("requirements.lock") < log.index("compileall") < log.index("-m hpml list")


def test_horovod_is_built_once_after_the_packages_are_there(with_python):
    done = with_python.run("list")
    assert done.stdout == "<list>"  # what it says goes to stderr
    assert "Horovod talks" in done.stderr
    python = f"{with_python.root}/.venv/bin/python"
    calls = [line for line in with_python.log.read_text().splitlines() if line.startswith(python)]
    assert calls[-3].endswith(f"--editable {with_python.root}")
    assert calls[-2:] == [f"{python} -m hpml.horovod", f"{python} -m hpml list"]
    with_python.run("list")
    assert with_python.log.read_text().count("-m hpml.horovod") == 1


@pytest.mark.parametrize("code", ["2", "1"])
def test_without_horovod_all_else_runs_and_it_is_not_tried_again(with_python, code):
    done = with_python.run("list", HOROVOD=code)
    assert (done.returncode, done.stdout) == (0, "<list>")
    assert with_python.run("list", HOROVOD=code).stdout == "<list>"
    assert with_python.log.read_text().count("-m hpml.horovod") == 1


def test_whoever_does_not_wait_for_horovod_has_all_else(with_python):
    with_python.mark("hang_horovod").touch()
    running = with_python.start("list")
    wait_for(with_python.mark("hanging"))
    os.killpg(running.pid, signal.SIGINT)
    out, err = running.communicate(timeout=60)
    assert (running.returncode, out) == (130, "")
    assert "./hpml horovod" in err.splitlines()[-1]
    assert with_python.run("list").stdout == "<list>"
    assert with_python.installs() == 1
    assert "-m hpml.horovod" not in with_python.log.read_text()


@pytest.mark.parametrize(
    ("built", "mentioned"),
    [
        (State("key", "Gloo", reason="", mpicxx=""), True),
        (State("key", "Gloo, MPI", reason="", mpicxx="/usr/bin/mpicxx"), False),
        (State("key", "Gloo", reason="", mpicxx="/opt/broken/mpicxx"), False),
        (State(reason="no C++ compiler: apt install g++"), False),
        (None, False),
    ],
)
def test_mpi_that_came_after_horovod_was_built_is_mentioned(
    with_python, monkeypatch, built, mentioned
):
    with_python.run()
    if built:
        site = with_python.root / ".venv" / "lib" / "python3.11" / "site-packages"
        monkeypatch.setattr(state, "file", lambda: site / "hpml.horovod.json")
        state.write(built)
    assert with_python.run("list").stderr == ""
    mpicxx = with_python.bin / "mpicxx"
    mpicxx.write_text("#!/bin/sh\n")
    mpicxx.chmod(0o755)
    done = with_python.run("list")
    assert (done.stdout, done.stderr.count("\n")) == ("<list>", mentioned)
    assert ("MPI is here now" in done.stderr) == mentioned
    assert ("./hpml horovod builds it anew" in done.stderr) == mentioned
    assert with_python.run("horovod").stderr == ""  # which is what does it
    assert with_python.installs() == 1


def test_the_exit_code_is_the_commands(with_python):
    assert with_python.run(CODE="3").returncode == 3


@pytest.mark.parametrize("name", RECIPE)
def test_a_change_of_what_is_pinned_installs_again(with_python, name):
    with_python.run()
    assert with_python.installs() == 1
    with (with_python.root / name).open("a") as file:
        file.write("# changed\n")
    with_python.run()
    assert with_python.installs() == 1
    with_python.run()
    assert with_python.installs() == 0


def test_a_moved_checkout_installs_again(with_python):
    with_python.run()
    with_python.installs()
    with_python.root = with_python.root.rename(with_python.root.parent / "elsewhere")
    assert with_python.run().returncode == 0
    assert with_python.installs() == 1


def test_a_failed_install_stops_with_one_line_and_is_repeated(with_python):
    with_python.mark("fail").touch()
    done = with_python.run("list")
    assert done.returncode == 2
    assert done.stdout == ""
    assert "pip stopped" in done.stderr.splitlines()[-1]
    done = with_python.run("list")
    assert done.stdout == "<list>"
    assert with_python.installs() == 2


def test_an_interrupted_set_up_is_repeated_and_half_installed_packages_are_forgotten(with_python):
    with_python.mark("hang").touch()
    running = with_python.start("list")
    wait_for(with_python.mark("hanging"))
    os.killpg(running.pid, signal.SIGINT)
    out, err = running.communicate(timeout=60)
    assert running.returncode == 130
    assert out == ""
    assert "interrupted" in err.splitlines()[-1]

    assert with_python.run("list").stdout == "<list>"
    first, second = with_python.mark("site").read_text().count("half"), with_python.installs()
    assert (first, second) == (0, 2)  # pip never met the half-installed package


def test_where_no_terminal_is_set_up_says_each_half_minute_that_it_is_at_work(with_python):
    script = with_python.root / "hpml"
    assert script.read_text().count("read -r -t 30 ") == 1
    script.write_text(script.read_text().replace("read -r -t 30 ", "read -r -t 0.1 "))
    with_python.mark("hang").touch()
    running = with_python.start("list")
    for line in running.stderr:
        if "still setting up, after" in line:
            break
    else:
        pytest.fail("it said nothing")
    wait_for(with_python.mark("hanging"))  # before pip, bash may not see the signal in time
    os.killpg(running.pid, signal.SIGINT)
    running.communicate(timeout=60)  # nobody has its stderr any more, also who said it
    assert running.returncode == 130
    assert with_python.run("list").stdout == "<list>"


def test_a_killed_set_up_is_repeated(with_python):
    with_python.mark("hang").touch()
    running = with_python.start("list")
    wait_for(with_python.mark("hanging"))
    os.killpg(running.pid, signal.SIGKILL)
    running.communicate(timeout=60)
    done = with_python.run("list")
    assert done.stdout == "<list>"
    assert with_python.installs() == 2


def test_two_set_ups_at_once_install_once(with_python, needs):
    needs("flock")
    with_python.mark("hang").touch()
    first = with_python.start("list")
    wait_for(with_python.mark("hanging"))
    second = with_python.start("hint")
    wait_until_blocked(second)
    assert with_python.installs() == 1
    # The first one is killed; the second takes over.
    os.killpg(first.pid, signal.SIGKILL)
    first.communicate(timeout=60)
    out, _ = second.communicate(timeout=60)
    assert out == "<hint>"
    assert with_python.installs() == 1


def test_a_finished_set_up_is_not_done_again_by_the_one_that_waited(with_python, needs):
    needs("flock")
    (with_python.root / ".hpml").mkdir()
    lock = with_python.root / ".hpml" / "setup.lock"
    flag = with_python.root.parent / "go"
    holder = subprocess.Popen(
        ["flock", lock, "bash", "-c", f"touch '{flag}'; read -r _"], stdin=subprocess.PIPE
    )
    wait_for(flag)
    waiting = with_python.start("list")
    wait_until_blocked(waiting)
    # Meanwhile the other one finishes.
    site = with_python.root / ".venv" / "lib" / "python3.11" / "site-packages"
    site.mkdir(parents=True)
    with_python.add_python(with_python.root / ".venv" / "bin", "python")
    pinned = [(with_python.root / name).read_text() for name in RECIPE]
    stamp = [str(with_python.root.resolve()), *(text.rstrip("\n") for text in pinned)]
    (site / "hpml.stamp").write_text("\n".join(stamp) + "\n")
    holder.communicate(b"\n", timeout=60)
    out, _ = waiting.communicate(timeout=60)
    assert out == "<list>"
    assert with_python.installs() == 0


@pytest.mark.parametrize("variable", ["VIRTUAL_ENV", "CONDA_PREFIX"])
def test_the_active_environment_is_used(machine, variable):
    active = machine.add_environment("mine")
    done = machine.run("list", **{variable: str(active)})
    assert done.stdout == "<list>", done.stderr
    assert machine.installs() == 1
    assert not (machine.root / ".venv").exists()
    machine.run("list", **{variable: str(active)})
    assert machine.installs() == 0


def test_condas_base_environment_is_left_alone(with_python):
    base = with_python.add_environment("base")
    with_python.run("list", CONDA_PREFIX=str(base), CONDA_DEFAULT_ENV="base")
    assert (with_python.root / ".venv").exists()
    assert list((base / "lib" / "python3.11" / "site-packages").iterdir()) == []


def test_a_venv_is_used_also_inside_condas_base(machine):
    active = machine.add_environment("mine")
    base = machine.add_environment("base")
    done = machine.run(VIRTUAL_ENV=str(active), CONDA_PREFIX=str(base), CONDA_DEFAULT_ENV="base")
    assert done.returncode == 0, done.stderr
    assert (active / "lib" / "python3.11" / "site-packages" / "hpml.stamp").exists()


def test_an_active_environment_with_another_python_is_named_and_not_used(with_python):
    active = with_python.add_environment("new", version="3.13")
    done = with_python.run(VIRTUAL_ENV=str(active))
    assert f"{active} is not used" in done.stderr
    assert (with_python.root / ".venv").exists()
    assert with_python.run(VIRTUAL_ENV=str(active)).stderr == ""


def test_an_environment_whose_python_is_gone_is_made_anew(with_python):
    with_python.run()
    python = with_python.root / ".venv" / "bin" / "python"
    python.unlink()
    python.symlink_to("/nowhere/python3.11")
    with_python.installs()
    assert with_python.run("list").stdout == "<list>"
    assert with_python.installs() == 1


def test_no_python_is_said_in_one_line_with_the_remedy(machine):
    done = machine.run("run")
    assert done.returncode == 2
    (line,) = done.stderr.splitlines()
    assert "no Python 3.10, 3.11 or 3.12" in line
    assert "apt install python3" in line
    assert "environment.yml" in line


def test_a_newer_python_alone_is_named_with_what_helps(machine):
    """Debian 13 has 3.13 alone, and apt has no other."""
    machine.add_python(name="python3")
    (machine.bin / "too_new").touch()
    done = machine.run("list")
    assert done.returncode == 2
    (line,) = done.stderr.splitlines()
    assert "Python 3.13.5 is here" in line
    assert "uv python install 3.12" in line
    assert "apt" not in line


@pytest.mark.parametrize("relative", [False, True])
def test_a_link_finds_its_project(with_python, relative):
    link = with_python.root.parent / "home" / "hpml"
    link.parent.mkdir()
    target = Path("..") / with_python.root.name / "hpml" if relative else with_python.root / "hpml"
    link.symlink_to(target)
    done = subprocess.run(
        [with_python.bin / "bash", link, "list"],
        env=with_python.environment, cwd="/", capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    assert done.stdout == "<list>", done.stderr
    assert (with_python.root / ".venv").is_dir()


def test_help_in_a_new_copy_sets_nothing_up(with_python):
    done = with_python.run("--help")
    assert (done.returncode, done.stderr) == (0, "")
    assert "./hpml list sets it up" in done.stdout
    assert not (with_python.root / ".venv").exists()
    with_python.run("list")
    assert with_python.run("--help").stdout == "<--help>"


def test_a_python_without_the_venv_module_is_said_in_one_line(with_python):
    (with_python.bin / "no_venv").touch()
    done = with_python.run()
    assert done.returncode == 2
    (line,) = done.stderr.splitlines()
    assert "python3.11 lacks the venv module" in line
    assert "apt install python3.11-venv" in line


def test_a_python_that_does_not_run_or_is_too_old_is_passed_over(machine):
    shims = machine.root.parent / "shims"
    old = machine.add_python(shims, "python3")
    (shims / "too_old").touch()
    broken = shims / "python3.12"
    broken.write_text(
        "#!/usr/bin/env bash\necho 'pyenv: python3.12: command not found' >&2; exit 127\n"
    )
    broken.chmod(0o755)
    good = machine.add_python(name="python3")
    done = machine.run(PATH=f"{shims}:{machine.bin}")
    assert done.returncode == 0, done.stderr
    assert "pyenv" not in done.stderr
    assert f"{good} -m venv" in machine.log.read_text()
    assert f"{old} -m venv" not in machine.log.read_text()


def test_the_version_is_printed_where_nothing_else_works(machine):
    (machine.root / "requirements.lock").unlink()  # and there is no Python
    done = machine.run("--version")
    assert (done.returncode, done.stdout, done.stderr) == (0, f"hpml {hpml.__version__}\n", "")


def test_a_commands_own_version_is_the_commands(with_python):
    assert with_python.run("lab", "--version").stdout == "<lab><--version>"


def test_a_lacking_compiler_is_said_and_does_not_stop(with_python):
    (with_python.bin / "c++").unlink(missing_ok=True)
    done = with_python.run("list")
    assert done.stdout == "<list>"
    assert "no C++ compiler" in done.stderr
    assert "apt install g++" in done.stderr


@pytest.mark.parametrize("script", ["hpml", ".ci/run"])
def test_scripts_are_shellcheck_clean(needs, script):
    checked = subprocess.run(
        [needs("shellcheck"), CHECKOUT / script], capture_output=True, text=True, timeout=60
    )
    assert checked.returncode == 0, checked.stdout


def test_the_script_is_executable():
    assert os.access(CHECKOUT / "hpml", os.X_OK)


def copy_of(machine: Machine) -> Path:
    """What ./hpml copy makes, as far as the script looks at it."""
    copy = machine.root.parent / "my copy"
    copy.mkdir()
    (machine.root / "course.toml").touch()
    for name in ("hpml", "course.toml", "src", ".venv", "pyproject.toml", "requirements.lock"):
        (copy / name).symlink_to(machine.root / name)
    return copy


def test_a_copy_uses_the_environment_of_the_installation_and_the_library_by_its_own_path(
    with_python,
):
    with_python.run("list")
    copy = copy_of(with_python)
    assert with_python.installs() == 1
    with_python.root, installed = copy, with_python.root
    done = with_python.run("list", PYTHONPATH="/site")
    assert (done.stdout, done.stderr) == ("<list>", "")
    assert with_python.log.read_text() == f"{copy}/.venv/bin/python -m hpml list\n"
    assert with_python.mark("path").read_text() == f"{copy}/src:/site"
    assert not (copy / ".hpml").exists()
    with_python.root = installed
    assert with_python.run("list").stdout == "<list>"
    assert with_python.installs() == 0  # it still belongs to its own folder
    assert with_python.mark("path").read_text() == ""


def test_a_copy_prefers_it_to_an_active_environment(with_python):
    with_python.run("list")
    other = with_python.add_environment("other")
    with_python.root = copy_of(with_python)
    with_python.installs()
    assert with_python.run("list", VIRTUAL_ENV=str(other)).stdout == "<list>"
    assert with_python.installs() == 0


def test_an_environment_elsewhere_may_be_linked_to_and_is_set_up(with_python):
    elsewhere = with_python.add_environment("on a larger disk")
    (with_python.root / ".venv").symlink_to(elsewhere)
    assert with_python.run("list").stdout == "<list>"
    assert with_python.installs() == 1
    assert (with_python.root / ".venv").is_symlink()
    assert with_python.run("list").stdout == "<list>"
    assert with_python.installs() == 0
