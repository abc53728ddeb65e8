"""Hands `./hpml check` and `watch` to a server that has imported PyTorch: a verdict in a moment.

    ./hpml check ── arguments, folder, environment, stdin, stdout, stderr ──► server
                 ◄── exit code ──────────── a fork of it runs the command ◄── fork ┘

There is one server for each owner, machine, checkout and Python, and for settings that count when
PyTorch is imported. The first check starts it. It ends by itself (see `hpml.cli.check_server`), and
another is started once a source of this package has changed. Where none can be had, a command runs
in its own process, as with HPML_SERVER=off.

The socket is in HPML_HOME/servers, which is its owner's alone. No port is used.
"""

import contextlib
import fcntl
import hashlib
import json
import os
import socket
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from hpml import paths
from hpml.cli import keys
from hpml.errors import NOT_GRADABLE

COMMANDS = ("check", "watch")
STARTED = b"."  # from the server: the command runs, and may have printed something
INTERRUPT = b"i"  # to the server: Ctrl-C

# Whether this process is `./hpml` itself, and not a test or a server's fork that calls a command
may_start = False

# Settings that count once, when Python starts or PyTorch is imported
_SETTINGS = ("ATEN_", "CUDA_", "GLOO_", "GOMP_", "HIP_", "KINETO_", "KMP_", "LANG", "LC_", "LD_")
_SETTINGS += ("MKL_", "NCCL_", "OMP_", "PYTHON", "SLURM_JOB_ID", "TMPDIR", "TORCH")
_SERVER = "import gc; gc.disable(); from hpml.cli.check_server import main; main()"


def hand_over(arguments: Sequence[str], start: bool = False) -> int | None:
    """Have a server run `./hpml ARGUMENTS` here, and wait for its exit code.

    None where no server is running (with `start`: none can be started), and nothing was done.
    """
    if not _is_wanted(arguments):
        return None
    for _ in range(2):  # one that ends at this moment is followed by another
        try:
            connection = _connected(start)
        except OSError:  # a file system without sockets, no room, no right to write
            return None
        if connection is None:
            return None
        with connection, keys.put_back(0), open(os.devnull) as nothing:
            # A terminal's keys are another's while we are in the background
            stdin = nothing.fileno() if os.isatty(0) and not keys.are_ours(0) else 0
            code = _run(connection, arguments, stdin)
        if code is not None:
            return code
    return None


def _is_wanted(arguments: Sequence[str]) -> bool:
    return (
        sys.platform == "linux"
        and bool(arguments)
        and arguments[0] in COMMANDS
        and "--help" not in arguments
        and os.environ.get("HPML_SERVER") != "off"
    )


def _run(connection: socket.socket, arguments: Sequence[str], stdin: int) -> int | None:
    """The command's exit code. None where the server ended before the command began."""
    received, interrupts = b"", 0
    try:
        request = {
            "arguments": list(arguments),
            "folder": os.getcwd(),
            "environment": dict(os.environ),
            "umask": _umask(),
        }
        body = json.dumps(request).encode()
        socket.send_fds(connection, [b"%12d" % len(body)], [stdin, 1, 2])
        connection.sendall(body)
    except OSError:
        return None
    while not received.endswith(b"\n"):
        try:
            data = connection.recv(16)
        except KeyboardInterrupt:
            interrupts += 1
            if interrupts > 2:
                raise
            with contextlib.suppress(OSError):
                connection.sendall(INTERRUPT)
            continue
        except OSError:
            data = b""
        if not data:
            if not received:
                return None
            print("hpml: the check's server was ended: check again", file=sys.stderr)
            return NOT_GRADABLE
        received += data
    return int(received.removeprefix(STARTED))


def _umask() -> int:
    umask = os.umask(0o77)
    os.umask(umask)
    return umask


def _connected(start: bool) -> socket.socket | None:
    opened = os.open(folder(), os.O_RDONLY | os.O_DIRECTORY)
    try:
        key = _key()
        name = f"{key}-{sources()}"
        connection = _connect(opened, name)
        if connection is None and start:
            number = os.open(f"{key}.lock", os.O_RDWR | os.O_CREAT, 0o600, dir_fd=opened)
            with open(number, "w") as lock:
                fcntl.flock(lock, fcntl.LOCK_EX)  # of two first checks, one starts the server
                connection = _connect(opened, name)
                if connection is None:
                    lock.truncate()
                    lock.write(f"{_start(opened, key, name)}\n")
                    connection = _connect(opened, name)
        return connection
    finally:
        os.close(opened)


def _connect(folder: int, name: str) -> socket.socket | None:
    """None where no server listens: there is none, or one that was killed has left its socket."""
    connection = socket.socket(socket.AF_UNIX)
    try:
        connection.connect(path_of(folder, name))
    except (FileNotFoundError, ConnectionRefusedError):
        connection.close()
        return None
    return connection


def _start(folder: int, key: str, name: str) -> int:
    """Start a server; returns its pid. Those of older sources end when they find that their sockets
    are gone."""
    for old in os.listdir(folder):
        if old.startswith(f"{key}-"):
            os.unlink(old, dir_fd=folder)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(path_of(folder, name))
        listener.listen(16)
        log = os.open(f"{key}.log", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600, dir_fd=folder)
        try:
            server = subprocess.Popen(
                [sys.executable, "-c", _SERVER, str(listener.fileno()), name],
                pass_fds=[listener.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=paths.CHECKOUT,
                start_new_session=True,  # neither Ctrl-C nor the terminal's end is for the server
            )
        finally:
            os.close(log)
    return server.pid


def path_of(folder: int, name: str) -> str:
    """A socket's path by its open folder: a path of its own may be longer than sockets' may be."""
    return f"/proc/self/fd/{folder}/{name}"


def folder() -> Path:
    """HPML_HOME/servers, which nobody else can look into. OSError where it is somebody else's."""
    found = paths.home() / "servers"
    found.mkdir(mode=0o700, exist_ok=True)
    status = os.lstat(found)
    if status.st_uid != os.getuid():
        raise PermissionError(f"{found} is not ours")
    if status.st_mode & 0o77:
        found.chmod(0o700)
    return found


def _key() -> str:
    """What a server is for: this user, machine, checkout, Python and settings.

    A container, a node of a virtual cluster and a job's share of the cores count as machines.
    """
    settings = sorted(item for item in os.environ.items() if item[0].startswith(_SETTINGS))
    spaces = [os.readlink(f"/proc/self/ns/{name}") for name in ("mnt", "net", "pid", "user")]
    machine = [os.uname().nodename, spaces, sorted(os.sched_getaffinity(0))]
    return _short(repr([str(paths.CHECKOUT), sys.executable, os.getuid(), machine, settings]))


def sources() -> str:
    """What the sources of this package are now, by their times and sizes; and what pip installed.

    Compiled files are not among them: they come while a command runs.
    """
    package = Path(__file__).parents[1]
    found: list[object] = []
    for installed in (path for path in sys.path if path.endswith("-packages")):
        with contextlib.suppress(OSError):
            found.append(os.stat(installed).st_mtime_ns)
    for folder, folders, files in os.walk(package):
        folders[:] = sorted(name for name in folders if name != "__pycache__")
        for file in sorted(files):
            if file.endswith(".py"):
                status = os.stat(os.path.join(folder, file))
                found += [file, status.st_mtime_ns, status.st_size]
    return _short(repr(found))


def _short(text: str) -> str:
    return hashlib.sha256(text.encode(errors="surrogateescape")).hexdigest()[:16]
