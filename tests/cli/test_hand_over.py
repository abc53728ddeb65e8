"""A check by a server that stays: it serves, is replaced, ends. What needs no server is light."""

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from hpml import paths
from hpml.cli import check_server, hand_over

from ..waiting import has_ended, until

pytestmark = pytest.mark.measures  # a daemon

LIMIT = 300  # seconds; far more than any of these takes
RIGHT = """\
# %%
# %%answer hello_ranks
import torch
import torch.distributed as dist


def hello(number):
    total = torch.tensor(number)
    dist.all_reduce(total)
    return total.item()
"""
HANGS = "# %%\n# %%answer hello_ranks\ndef hello(number):\n    import time\n    time.sleep(200)\n"
BROKEN = "# %%\n# %%answer hello_ranks\n\ndef hello(n):\n  return (1\n"
HEAVY = {"torch", "numpy", "jupytext", "nbformat", "jsonschema", "cloudpickle"}
SHOW_HEAVY = f"""
import sys
from hpml.cli import main
try:
    main()
finally:
    print(sorted({HEAVY!r} & sys.modules.keys()))
"""
# What a client does, with other sources than the server's
AS_OF_OTHER_SOURCES = """
import sys
from hpml.cli import hand_over
hand_over.sources = lambda: "changed"
sys.exit(hand_over.hand_over(sys.argv[1:], start=True))
"""


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """HPML_HOME; its servers are ended with the test."""
    monkeypatch.setenv("HPML_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("HPML_SERVER", "on")
    monkeypatch.chdir(tmp_path)
    yield tmp_path / "home"
    for server in servers(tmp_path / "home"):
        server.kill()


def servers(home: Path) -> list[psutil.Process]:
    """The processes that are servers of this home, and no forks of one."""
    found = []
    for process in psutil.process_iter(["cmdline", "environ", "ppid"]):
        if any("hpml.cli.check_server" in word for word in process.info["cmdline"] or ()):
            found.append(process)
    pids = {process.pid for process in found}
    return [
        process
        for process in found
        if process.info["ppid"] not in pids
        and (process.info["environ"] or {}).get("HPML_HOME") == str(home)
    ]


def run(*arguments: str, code: str | None = None) -> subprocess.CompletedProcess[str]:
    program = ["-m", "hpml"] if code is None else ["-c", code]
    return subprocess.run(
        [sys.executable, *program, *arguments], capture_output=True, text=True, timeout=LIMIT
    )


@pytest.mark.parametrize(
    "arguments", [["list"], ["hint", "hello_ranks"], ["check", "broken.py"]], ids=lambda a: a[0]
)
def test_what_judges_nothing_imports_nothing_heavy(home, arguments):
    Path("broken.py").write_text(BROKEN)
    ended = run(*arguments, code=SHOW_HEAVY)
    assert ended.stdout.splitlines()[-1] == "[]", ended.stderr
    assert not ended.stderr
    assert not servers(home)


def test_what_is_to_come_is_printed_before_anything_heavy_is_imported(home):
    Path("mine.py").write_text(RIGHT)
    code = (
        "import sys\nfrom hpml import cli\nfrom hpml.cli import hand_over\n"
        "hand_over.may_start = True\n"
        f"def handed(arguments, start): print(arguments, start, {HEAVY!r} & sys.modules.keys())\n"
        "hand_over.hand_over = lambda *a, **k: handed(*a, **k) or 0\ncli.main()"
    )
    ended = run("check", "mine.py", code=code)
    assert ended.stderr == "hello_ranks: the first check starts PyTorch, which takes some seconds\n"
    assert ended.stdout == "['check', 'mine.py'] True set()\n"


def test_a_server_serves_every_check_until_the_sources_change(home):
    Path("mine.py").write_text(RIGHT)
    Path("broken.py").write_text(BROKEN)
    first = run("check", "mine.py", "--seed", "7")
    assert first.returncode == 0, first.stderr
    assert "the first check starts PyTorch" in first.stderr
    assert "✓ hello_ranks" in first.stdout
    (server,) = servers(home)

    again = run("check", "mine.py", "--seed", "7")
    assert (again.returncode, again.stdout, again.stderr) == (0, first.stdout, "")
    broken = run("check", "broken.py")
    assert (broken.returncode, broken.stderr) == (1, "")
    assert "'(' was never closed" in broken.stdout
    gone = run("check", "gone.py")
    assert (gone.returncode, gone.stderr) == (2, "hpml: gone.py: no such file\n")
    assert servers(home) == [server]

    interrupted(home, server)

    changed = run("check", "mine.py", code=AS_OF_OTHER_SOURCES)
    assert changed.returncode == 0, changed.stderr
    until(lambda: has_ended(server.pid), "the end of the server of older sources")
    (newer,) = servers(home)
    for socket_of_it in (home / "servers").glob("*-changed"):
        socket_of_it.unlink()
    until(lambda: has_ended(newer.pid), "the end of a server whose socket is gone")


def interrupted(home: Path, server: psutil.Process) -> None:
    """Ctrl-C ends the command, and nothing of it stays; a client that is killed takes it along."""
    Path("hangs.py").write_text(HANGS)
    for number, code in ((signal.SIGINT, 130), (signal.SIGKILL, -signal.SIGKILL)):
        client = subprocess.Popen(
            [sys.executable, "-m", "hpml", "check", "hangs.py"],
            stderr=subprocess.PIPE,
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
        )
        # The command, its warm server, a supervisor at least
        until(lambda: len(server.children(recursive=True)) > 2, "a command")
        client.send_signal(number)
        client.communicate(timeout=LIMIT)
        assert client.returncode == code
        until(lambda: not server.children(recursive=True), "the end of all of it")
    assert servers(home) == [server]


@pytest.fixture
def listening(home: Path) -> Iterator[tuple[check_server.Server, Path]]:
    """A server in this process, that nobody has asked yet, and its socket."""
    path = hand_over.folder() / "a-server"
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(os.path.relpath(path))  # the whole path may be too long
        listener.listen()
        yield check_server.Server(listener, path.name, hand_over.sources(), 1), path


def test_a_server_stays_while_it_may_be_needed(listening):
    server, _ = listening
    server._sessions = {os.getpid()}
    assert not server._is_over()


def test_a_server_that_is_not_used_ends(listening):
    server, _ = listening
    server._asked -= check_server.IDLE + 1
    assert server._is_over()


def test_a_server_ends_after_the_logout(listening):
    server, _ = listening
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    server._asked -= check_server.ALONE + 1
    server._sessions = {os.getpid(), ended.pid}
    assert not server._is_over()
    server._sessions = {ended.pid}
    assert server._is_over()


def test_a_server_ends_without_its_socket_and_with_other_sources(listening):
    server, path = listening
    server._looked_at_sources -= check_server.LOOK_AT_SOURCES + 1
    server._sources = "changed"
    assert server._is_over()
    path.unlink()
    assert server._is_over()


def test_the_folder_is_its_owners_alone(home):
    (home / "servers").mkdir(parents=True, mode=0o755)
    assert hand_over.folder().stat().st_mode & 0o777 == 0o700


def test_a_socket_that_nobody_listens_to_is_as_none(home):
    folder = os.open(hand_over.folder(), os.O_RDONLY)
    try:
        assert hand_over._connect(folder, "none") is None
        with socket.socket(socket.AF_UNIX) as left:
            left.bind(hand_over.path_of(folder, "left"))
        assert hand_over._connect(folder, "left") is None
    finally:
        os.close(folder)


def test_each_checkout_and_each_setting_has_a_server_of_its_own(home, monkeypatch, tmp_path):
    key = hand_over._key()
    assert hand_over._key() == key
    with monkeypatch.context() as patched:
        patched.setattr(paths, "CHECKOUT", tmp_path)
        assert hand_over._key() != key
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    assert hand_over._key() != key


def test_no_server_is_asked_where_it_is_switched_off_or_cannot_be(home, monkeypatch):
    for arguments in (["list"], ["check", "--help"], []):
        assert hand_over.hand_over(arguments, start=True) is None
    monkeypatch.setenv("HPML_SERVER", "off")
    assert hand_over.hand_over(["check", "mine.py"], start=True) is None
    monkeypatch.setenv("HPML_SERVER", "on")
    home.mkdir(exist_ok=True)
    (home / "servers").write_text("no folder")
    assert hand_over.hand_over(["check", "mine.py"], start=True) is None
