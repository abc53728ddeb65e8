"""What the compiler is given, what is shown meanwhile, and what a stopped build is called."""

import hashlib
import io
import tarfile
from pathlib import Path

import pytest

from hpml.errors import UserError
from hpml.horovod import VERSION, build, cache, command, source
from hpml.horovod.flavour import Flavour
from hpml.horovod.progress import Progress

FLAVOUR = Flavour(VERSION, "p", "cp311", "torch 2", "tf 2", "", "", "g++", "-mavx", "linux")


def test_the_build_gets_what_the_flavour_has_and_nothing_else(monkeypatch):
    monkeypatch.setattr(build, "nvcc_of", lambda environment: Path("/cuda-13/bin/nvcc"))
    monkeypatch.setattr(build, "nccl_of", lambda environment: Path("/nccl"))
    theirs = {
        "HOROVOD_WITH_MXNET": "1",
        "HOROVOD_GPU_ALLREDUCE": "MPI",
        "HOROVOD_GPU_OPERATIONS": "NCCL",
        "HOROVOD_NCCL_HOME": "/nccl",
        "HOROVOD_CUDA_HOME": "/cuda",
        "PATH": "/usr/bin",
        "LANG": "C",
    }
    given = build.build_environment(FLAVOUR, theirs)
    assert given["HOROVOD_WITH_GLOO"] == given["HOROVOD_WITHOUT_MPI"] == "1"
    assert given["HOROVOD_NCCL_HOME"] == "/nccl"
    assert given["LANG"] == "C"
    assert given["PATH"].endswith(":/usr/bin")
    assert given["HOROVOD_BUILD_ARCH_FLAGS"] == "-mavx"
    for name in ("HOROVOD_WITH_MXNET", "HOROVOD_GPU_ALLREDUCE", "HOROVOD_GPU_OPERATIONS"):
        assert name not in given
    both = Flavour(**{**vars(FLAVOUR), "mpi": "Open MPI", "gpu": "NCCL", "simd": ""})
    given = build.build_environment(both, theirs)
    assert given["HOROVOD_WITH_MPI"] == "1"
    assert given["HOROVOD_GPU_OPERATIONS"] == "NCCL"
    assert given["HOROVOD_CUDA_HOME"] == "/cuda-13"
    assert given["HOROVOD_NCCL_HOME"] == "/nccl"
    assert "HOROVOD_WITHOUT_MPI" not in given
    assert given["HOROVOD_BUILD_ARCH_FLAGS"] == " "


@pytest.mark.parametrize(("cores", "gib", "jobs"), [(8, 64, 8), (8, 7, 3), (1, 1, 1), (2.5, 64, 2)])
def test_no_more_compilers_than_cores_and_memory_for_them(monkeypatch, cores, gib, jobs):
    monkeypatch.setattr(build, "usable_cores", lambda: cores)
    monkeypatch.setattr(build, "usable_memory", lambda: gib * build.GIB)
    assert build.build_environment(FLAVOUR, {})["CMAKE_BUILD_PARALLEL_LEVEL"] == str(jobs)


@pytest.mark.parametrize(
    ("lines", "words"),
    [
        (["a", "x.cc:3:9: error: no type 'Q'", "b: error: later"], "error: no type 'Q'"),
        (["x.h:1: fatal error: mpi.h: No such file"], "fatal error: mpi.h: No such file"),
        (
            ["c++: fatal error: Killed signal terminated program cc1plus"],
            "the compiler ran out of memory",
        ),
        (["error: x", "cannot write: No space left on device"], "No space left on device"),
        (["CMake Error at CMakeLists.txt:3:"], "CMake Error at CMakeLists.txt:3:"),
        (["first", "last", ""], "last"),
        ([], "pip printed nothing"),
    ],
)
def test_the_reason_is_the_line_that_explains_most(lines, words):
    assert build.reason(lines).startswith(words)


@pytest.fixture
def with_source(tmp_path, monkeypatch):
    monkeypatch.setenv("HPML_CACHE", str(tmp_path))
    monkeypatch.setattr(source, "fetch", lambda log: tmp_path / "archive")
    monkeypatch.setattr(source, "unpack", lambda archive, folder: folder / "source")
    return tmp_path


def _pip(monkeypatch, status: int, lines: list[str], wheels: int = 1) -> None:
    def run(program, *, on_line, **options):
        assert Path(program[-1]).name == "source"
        for line in lines:
            on_line(line)
        folder = Path(program[program.index("-w") + 1])
        folder.mkdir()
        for number in range(wheels):
            (folder / f"{number}.whl").touch()
        return status

    monkeypatch.setattr(command, "run", run)


def test_a_build_gives_a_wheel(with_source, monkeypatch):
    _pip(monkeypatch, 0, ["ok"])
    wheel = build.build(FLAVOUR, with_source, with_source / "log", Progress(io.StringIO()))
    assert wheel == with_source / "wheel" / "0.whl"


@pytest.mark.parametrize(("status", "wheels"), [(1, 1), (0, 0)])
def test_a_stopped_build_is_reported_with_its_reason_and_its_log(
    with_source, monkeypatch, status, wheels
):
    _pip(monkeypatch, status, ["", "x.cc:1: error: so it is"], wheels)
    with pytest.raises(UserError, match=r"its build stopped: error: so it is: see .*/log$"):
        build.build(FLAVOUR, with_source, with_source / "log", Progress(io.StringIO()))


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


STEP = "  [{}/80] Building CXX object horovod/torch/CMakeFiles/pytorch.dir/mpi_ops_v2.cc.o"


def test_on_a_terminal_one_line_moves_and_goes_away(monkeypatch):
    clock = iter(range(0, 1000, 5))
    monkeypatch.setattr("hpml.horovod.progress.time.monotonic", lambda: next(clock))
    out = Terminal()
    progress = Progress(out)
    progress.begin()
    for done in (20, 40):
        progress.line(STEP.format(done))
    progress.line("")  # the clock goes on while a long file compiles
    progress.end()
    drawn = out.getvalue().split("\r\x1b[K")
    assert [line.split() for line in drawn[1:-1]] == [
        ["Horovod", "25%", "0:05", "mpi_ops_v2.cc"],
        ["Horovod", "50%", "0:10", "mpi_ops_v2.cc"],
        ["Horovod", "50%", "0:15", "mpi_ops_v2.cc"],
    ]
    assert drawn[-1] == ""
    assert "\n" not in out.getvalue()


def test_elsewhere_a_line_a_minute(monkeypatch):
    clock = iter(range(0, 1000, 25))
    monkeypatch.setattr("hpml.horovod.progress.time.monotonic", lambda: next(clock))
    out = io.StringIO()
    progress = Progress(out)
    progress.begin()
    for done in range(1, 7):
        progress.line(STEP.format(done))
    progress.end()
    assert out.getvalue().count("\n") == 2
    assert all(line.startswith("hpml: Horovod ") for line in out.getvalue().splitlines())


@pytest.fixture
def archive(tmp_path, monkeypatch):
    """An archive that counts as the official one."""
    inside = tmp_path / f"horovod-{VERSION}"
    inside.mkdir()
    (inside / "a.txt").write_text("a\n")
    path = tmp_path / "official.tar.gz"
    with tarfile.open(path, "w:gz") as tar:
        tar.add(inside, inside.name)
    monkeypatch.setattr(source, "SHA256", hashlib.sha256(path.read_bytes()).hexdigest())
    monkeypatch.setenv("HPML_CACHE", str(tmp_path / "cache"))
    cache.folder().mkdir(parents=True)
    return path


def test_the_source_is_downloaded_once_by_pip_with_its_hash(archive, tmp_path, monkeypatch):
    asked = []

    def pip(program, **options):
        asked.append(Path(program[program.index("-r") + 1]).read_text())
        (Path(program[-1]) / source.ARCHIVE).write_bytes(archive.read_bytes())
        return 0

    monkeypatch.setattr(command, "run", pip)
    first = source.fetch(tmp_path / "log")
    assert source.fetch(tmp_path / "log") == first
    assert asked == [f"horovod=={VERSION} --hash=sha256:{source.SHA256}\n"]
    assert first.read_bytes() == archive.read_bytes()
    assert [path.name for path in cache.folder().iterdir()] == [source.ARCHIVE]


@pytest.mark.parametrize("how", ["status", "nothing", "another", "late"])
def test_a_source_that_does_not_come_is_reported_with_the_way_by_hand(
    archive, tmp_path, monkeypatch, how
):
    def pip(program, **options):
        if how == "late":
            raise TimeoutError("no end")
        if how == "another":
            (Path(program[-1]) / source.ARCHIVE).write_bytes(b"not it")
        return int(how == "status")

    monkeypatch.setattr(command, "run", pip)
    with pytest.raises(UserError, match=rf"cannot download .*put the file into {cache.folder()}"):
        source.fetch(tmp_path / "log")
    assert list(cache.folder().iterdir()) == []


def test_a_source_put_there_by_hand_is_used_and_a_wrong_one_is_not(archive, tmp_path, monkeypatch):
    def no_network(program, **options):
        return 1

    monkeypatch.setattr(command, "run", no_network)
    by_hand = cache.folder() / source.ARCHIVE
    by_hand.write_bytes(archive.read_bytes())
    assert source.fetch(tmp_path / "log") == by_hand
    by_hand.write_bytes(b"another")
    with pytest.raises(UserError, match="cannot download"):
        source.fetch(tmp_path / "log")


def test_the_source_is_unpacked_and_patched(archive, tmp_path, monkeypatch):
    ours = tmp_path / "ours.patch"
    ours.write_text("--- a/a.txt\n+++ b/a.txt\n@@ -1 +1 @@\n-a\n+b\n")
    monkeypatch.setattr(source, "PATCH", ours)
    root = source.unpack(archive, tmp_path / "into")
    assert (root / "a.txt").read_text() == "b\n"
