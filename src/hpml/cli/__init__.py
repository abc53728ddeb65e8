"""The command line. What a command needs is imported when that command runs, and not before."""

import inspect
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from hpml import __version__
from hpml.errors import USAGE, UserError

if TYPE_CHECKING:  # it takes a tenth of a second, which what is handed over need not wait for
    import typer

INTERRUPTED = 130  # 128 + SIGINT, as shells have it


@dataclass(frozen=True)
class Command:
    """A command's place in this folder, or in `instructors/`, which a release leaves out.

    A group's `function` is a typer application. With `passes_on`, unknown options go to its list of
    arguments and are not an error; with `own_help`, so does --help; with `keeps_dashes`, so does
    the first --.
    """

    module: str
    function: str
    help: str
    panel: str
    group: bool = False
    passes_on: bool = False
    own_help: bool = False
    keeps_dashes: bool = False
    instructors: str = ""  # the module with the rest of a group


COMMANDS = {
    "run": Command(
        "run_command", "run", "The day on this machine, with a report to read.", "The day"
    ),
    "lab": Command("run_command", "lab", "Open the course in JupyterLab.", "The day"),
    "copy": Command("copy_command", "copy", "A copy of your own, where many share one.", "The day"),
    "kernel": Command(
        "kernel_command", "app", "Its kernel for JupyterHub or VS Code.", "The day", group=True
    ),
    "doctor": Command(
        "doctor_command", "doctor", "What this machine has, and what each lack costs.", "The day"
    ),
    "data": Command("data_command", "data", "Get CIFAR-10, or check what is there.", "The day"),
    "horovod": Command(
        "horovod_command", "horovod", "Build Horovod for module 05, if need be.", "The day"
    ),
    "list": Command(
        "exercise_commands", "list_", "Modules, exercises and your progress.", "Exercises"
    ),
    "check": Command("exercise_commands", "check", "Check answers: what changed.", "Exercises"),
    "hint": Command("exercise_commands", "hint", "A hint for an exercise.", "Exercises"),
    "answer": Command(
        "exercise_commands", "answer", "The course's own answer, once yours passes.", "Exercises"
    ),
    "watch": Command("watch_command", "watch", "Check answers whenever you save.", "Exercises"),
    "restore": Command(
        "exercise_commands", "restore", "A notebook or a stub, as handed out.", "Exercises"
    ),
    "grade": Command(
        "instructors.grade_command", "grade", "Grade what a class handed in.", "Teaching"
    ),
    "class": Command(
        "instructors.class_command", "class_", "Where a class is now, live.", "Teaching"
    ),
    "run-sheet": Command(
        "instructors.run_sheet_command",
        "run_sheet",
        "The day on paper, for the instructor.",
        "Teaching",
    ),
    "train": Command(
        "train_command",
        "train",
        "Train the network on CIFAR-10.",
        "Measuring",
        passes_on=True,
        own_help=True,
    ),
    "race": Command("race_command", "race", "Seconds to an accuracy: turn a switch.", "Measuring"),
    "predict": Command(
        "predict_command", "predict", "Images/s on ranks that you do not have.", "Measuring"
    ),
    "record": Command(
        "record_command",
        "record",
        "What a GPU shows: measured once, kept in files.",
        "Measuring",
        passes_on=True,
        own_help=True,
    ),
    "tensorboard": Command(
        "tensorboard_command",
        "tensorboard",
        "Show profiles and logs in a browser, offline.",
        "Measuring",
    ),
    "cluster": Command(
        "cluster_command", "app", "A SLURM with virtual nodes, here.", "Cluster", group=True
    ),
    "submit": Command(
        "submit_command",
        "submit",
        "Submit a module's job script, and follow it.",
        "Cluster",
        passes_on=True,
        keeps_dashes=True,
    ),
    "site": Command(
        "site_command", "app", "The day before: does it run on your cluster?", "Cluster", group=True
    ),
    "bench": Command(
        "bench_command",
        "app",
        "Benchmarks, as ratios.",
        "Measuring",
        group=True,
        instructors="instructors.bench_grading_command",
    ),
    "test": Command(
        "instructors.test_command",
        "run_tests",
        "Run the tests.",
        "Making the course",
        passes_on=True,
    ),
    "release": Command(
        "instructors.release_command", "release", "Make what a learner gets.", "Making the course"
    ),
    "build": Command(
        "instructors.author_command",
        "build",
        "Make the exercises from the solutions.",
        "Making the course",
    ),
    "course": Command(
        "instructors.author_command",
        "course_app",
        "Prove the checks, look at lectures.",
        "Making the course",
        group=True,
    ),
}


def _is_here(module: str) -> bool:
    return (Path(__file__).parent / f"{module.replace('.', '/')}.py").is_file()


# A release for learners comes without the files that make and grade the course.
COMMANDS = {name: command for name, command in COMMANDS.items() if _is_here(command.module)}


def application(wanted: str | None) -> "typer.Typer":
    """All commands, of which only `wanted` is imported; the others are there for --help."""
    import typer

    def print_version(wanted: bool) -> None:
        if wanted:
            typer.echo(f"hpml {__version__}")
            raise typer.Exit

    def options(
        version: Annotated[
            bool,
            typer.Option(
                "--version", is_eager=True, callback=print_version, help="Which version this is."
            ),
        ] = False,
    ) -> None:
        """Options before a command. With it, typer makes a group even of a single command."""

    app = typer.Typer(
        help="High Performance Machine Learning, day 2: parallel and distributed deep learning.",
        add_completion=False,
        rich_markup_mode="rich",
        pretty_exceptions_enable=False,
    )
    app.callback()(options)
    for name, command in COMMANDS.items():
        function: Any = _placeholder
        if name == wanted:
            function = getattr(import_module(f"{__name__}.{command.module}"), command.function)
            if command.instructors and _is_here(command.instructors):
                import_module(f"{__name__}.{command.instructors}")
        if command.group and name == wanted:
            for each in function.registered_commands:
                each.help = each.help or _help(each.callback)
            app.add_typer(function, name=name, help=command.help, rich_help_panel=command.panel)
        else:
            app.command(
                name,
                help=_help(function),
                short_help=command.help,
                rich_help_panel=command.panel,
                context_settings={
                    "ignore_unknown_options": command.passes_on,
                    "help_option_names": [] if command.own_help else ["--help"],
                },
            )(function)
    return app


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command that `arguments` (default: the process's) name; exit with its code.

    A command returns None or 0 when all is well, and else one of the codes in `hpml.errors`.
    """
    arguments = list(sys.argv[1:] if arguments is None else arguments) or ["--help"]
    wanted = arguments[0] if arguments[0] in COMMANDS else None
    if wanted and arguments == [wanted] and COMMANDS[wanted].group:
        arguments.append("--help")  # as where no command is given
    if wanted and COMMANDS[wanted].keeps_dashes and "--" in arguments:
        arguments.insert(arguments.index("--"), "--")  # the parser takes one away
    import typer

    try:
        code = application(wanted)(arguments, prog_name="./hpml", standalone_mode=False)
    except UserError as error:
        code = _complain(str(error))
    except (KeyboardInterrupt, typer.Abort):
        code = INTERRUPTED
    except Exception as error:
        if not hasattr(error, "format_message"):  # all of typer's usage errors have it
            raise
        command = f"./hpml {wanted}" if wanted else "./hpml"
        code = _complain(f"{error.format_message().rstrip('.')}: {command} --help says more")
    if code == INTERRUPTED:  # some versions of typer return it, others raise
        print("hpml: interrupted", file=sys.stderr)
    sys.exit(code if type(code) is int else 0)


def _help(function: Callable[..., object]) -> str:
    """A docstring with one line a paragraph: typer would break lines where the source does."""
    paragraphs = (inspect.getdoc(function) or "").split("\n\n")
    return "\n\n".join(" ".join(paragraph.split()) for paragraph in paragraphs)


def _placeholder() -> None:
    """Stands in for a command that is not wanted."""


def _complain(message: str) -> int:
    print(f"hpml: {' '.join(message.split())}", file=sys.stderr)
    return USAGE
