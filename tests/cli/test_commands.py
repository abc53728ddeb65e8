"""The command line as a whole: help, exit codes, errors in one line."""

import importlib
import json
import os
import signal
import subprocess
import sys
from importlib.metadata import version

import pytest
import typer

from hpml import cli
from hpml.errors import NOT_GRADABLE, UserError


def hpml(*arguments: str, code: str = "from hpml.cli import main; main()", columns: int = 200):
    return subprocess.run(
        [sys.executable, "-c", code, *arguments],
        env={
            **os.environ,
            "COLUMNS": str(columns),
            "TERM": "dumb",
            "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
        },
        capture_output=True,
        text=True,
        timeout=120,
    )


@pytest.fixture
def the_command(monkeypatch):
    """Make `./hpml list` be the given function."""

    def is_(function) -> None:
        module = type(sys)("hpml.cli.exercise_commands")
        module.list_ = function
        monkeypatch.setitem(sys.modules, "hpml.cli.exercise_commands", module)

    return is_


def code_of(*arguments: str) -> int:
    with pytest.raises(SystemExit) as exit_:
        cli.main(arguments)
    return exit_.value.code


def test_help_names_every_command_with_what_it_does():
    done = hpml("--help")
    assert done.returncode == 0
    for name, command in cli.COMMANDS.items():
        line = next(line for line in done.stdout.splitlines() if f"│ {name} " in line)
        assert command.help in line


def test_no_arguments_is_a_call_for_help():
    assert hpml().stdout == hpml("--help").stdout


@pytest.mark.parametrize("name", [name for name, each in cli.COMMANDS.items() if each.group])
def test_a_group_alone_is_a_call_for_help_as_no_arguments_are(name):
    alone = hpml(name)
    assert (alone.returncode, alone.stderr) == (0, "")
    assert alone.stdout == hpml(name, "--help").stdout


def test_the_commands_that_are_groups_are_marked_as_such():
    for name, command in cli.COMMANDS.items():
        module = importlib.import_module(f"hpml.cli.{command.module}")
        assert isinstance(getattr(module, command.function), typer.Typer) == command.group, name


def test_a_paragraph_of_help_is_broken_at_the_width_of_the_terminal_alone():
    lines = [line.strip() for line in hpml("run", "--help", columns=80).stdout.splitlines()]
    assert "alone. Exit code 0 when every cell ran and no exercise failed, 1 when one did," in lines
    assert "2 when it could not begin. A claim that cannot be judged here, as one on" in lines


def test_the_version_is_the_packages():
    assert hpml("--version").stdout == f"hpml {version('hpml')}\n"


def test_help_imports_nothing_slow():
    code = (
        "import sys\nfrom hpml.cli import main\ntry: main()\n"
        "finally: print({'torch', 'numpy', 'jupyterlab', 'matplotlib'} & sys.modules.keys())"
    )
    assert hpml("--help", code=code).stdout.splitlines()[-1] == "set()"


@pytest.mark.parametrize("name", cli.COMMANDS)
def test_every_command_is_there_and_explains_itself(name):
    done = hpml(name, "--help")
    assert done.returncode == 0, done.stderr
    assert f"sage: ./hpml {name} " in done.stdout  # train's is argparse's: "usage"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [(["nope"], "'nope'"), (["--nope"], "--nope"), (["doctor", "--nope"], "./hpml doctor --help")],
)
def test_wrong_usage_is_one_line_and_exit_code_2(arguments, words):
    done = hpml(*arguments)
    assert done.returncode == 2
    assert done.stdout == ""
    (line,) = done.stderr.splitlines()
    assert line.startswith("hpml: ")
    assert words in line
    assert "--help" in line


def test_a_user_error_is_one_line_and_exit_code_2(the_command, capsys):
    def command() -> None:
        raise UserError("answers.py has no %%answer cell:\n  add one")

    the_command(command)
    assert code_of("list") == 2
    assert capsys.readouterr().err == "hpml: answers.py has no %%answer cell: add one\n"


@pytest.mark.parametrize(
    ("returned", "code"), [(None, 0), (0, 0), (1, 1), (NOT_GRADABLE, 3), (True, 0), ("text", 0)]
)
def test_what_a_command_returns_is_the_exit_code(the_command, returned, code):
    the_command(lambda: returned)
    assert code_of("list") == code


def test_a_command_may_also_raise_its_exit_code(the_command):
    def command() -> None:
        raise typer.Exit(1)

    the_command(command)
    assert code_of("list") == 1


def test_a_fault_of_ours_keeps_its_traceback(the_command):
    def command() -> None:
        raise ZeroDivisionError("ours")

    the_command(command)
    with pytest.raises(ZeroDivisionError):
        cli.main(["list"])


def test_an_interrupt_is_one_line_and_exit_code_130():
    code = (
        "import sys, time, types\nfrom hpml.cli import main\n"
        "module = types.ModuleType('hpml.cli.exercise_commands')\n"
        "module.list_ = lambda: print('here', flush=True) or time.sleep(60)\n"
        "sys.modules[module.__name__] = module\nmain()"
    )
    running = subprocess.Popen(
        [sys.executable, "-c", code, "list"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        # Whatever runs these tests in the background may have made them ignore it.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    assert running.stdout.readline() == "here\n"
    running.send_signal(signal.SIGINT)
    _, err = running.communicate(timeout=60)
    assert running.returncode == 130
    assert err.strip() == "hpml: interrupted"


def test_doctor_as_json_is_the_machines_facts():
    done = hpml("doctor", "--json")
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert report["can_run"] is True
    facts = {fact["name"]: fact for fact in report["facts"]}
    assert facts["Python"]["value"].startswith(".".join(map(str, sys.version_info[:3])))
    assert facts["torch"]["ok"]
    sandbox = facts["sandbox of a grader"]
    assert "control group" in sandbox["value"] or sandbox["remedy"]


def test_doctor_prints_cost_and_remedy_of_each_lack_and_of_nothing_else(monkeypatch, capsys):
    from hpml import doctor

    facts = (
        doctor.Fact("here", "3 of them", True, needed=True),
        doctor.Fact("gone", "none", False, "no [fun]", "buy one"),
    )
    monkeypatch.setattr(doctor, "facts", lambda: facts)
    monkeypatch.setattr("hpml.cli.doctor_command.find_spec", lambda _: None)
    monkeypatch.setenv("COLUMNS", "100")
    assert code_of("doctor") == 0
    lines = [line.strip() for line in capsys.readouterr().out.splitlines()]
    assert lines[:4] == ["here  3 of them", "gone  none", "costs: no [fun]", "remedy: buy one"]


def test_doctor_reports_when_the_course_cannot_run(monkeypatch, capsys):
    from hpml import doctor

    facts = (doctor.Fact("torch", "none", False, "nothing runs", "install it", needed=True),)
    monkeypatch.setattr(doctor, "facts", lambda: facts)
    assert code_of("doctor") == 2
    assert "cannot run" in capsys.readouterr().out


def test_test_runs_pytest_with_what_it_is_given_and_maps_its_exit_code(tmp_path):
    (tmp_path / "test_it.py").write_text("def test_good(): pass\ndef test_bad(): assert 0\n")
    options = [
        "-p",
        "xdist",
        "-n0",
        "-q",
        "-p",
        "no:cacheprovider",
        f"--rootdir={tmp_path}",
        str(tmp_path),
    ]
    good = hpml("test", *options, "-k", "good")
    assert (good.returncode, "1 passed" in good.stdout) == (0, True), good.stdout
    bad = hpml("test", *options)
    assert (bad.returncode, "1 failed, 1 passed" in bad.stdout) == (1, True), bad.stdout
    assert "slowest" in bad.stdout
