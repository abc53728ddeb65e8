"""What a Horovod would be built against on this machine and on others."""

import sysconfig
from pathlib import Path

import pytest

from hpml.horovod import flavour
from hpml.horovod.flavour import compiler_of, detect

SAYS = '#!/bin/sh\necho "$0 1.0"\n'
DECLINES = "#!/bin/sh\nexit 1\n"


@pytest.fixture
def machine(tmp_path, monkeypatch):
    """A machine with these programs on its PATH, and cmake and ninja in its environment."""
    here = tmp_path / "bin"
    here.mkdir()

    def has(**scripts: str) -> dict[str, str]:
        for name, script in {"cmake": SAYS, "ninja": SAYS, **scripts}.items():
            program = here / name.replace("cxx", "c++") if name == "cxx" else here / name
            program.write_text(script)
            program.chmod(0o755)
        return {"PATH": str(here)}

    include = tmp_path / "include"
    include.mkdir()
    (include / "Python.h").touch()
    monkeypatch.setenv("PATH", str(here))
    monkeypatch.setattr(flavour, "package", lambda name: f"{name} 2")
    paths = {"include": str(include), "scripts": str(here)}
    monkeypatch.setattr(sysconfig, "get_path", paths.__getitem__)
    flavour._output_line.cache_clear()
    yield has
    flavour._output_line.cache_clear()


def test_a_complete_machine(machine, tmp_path):
    found, missing = detect(machine(cxx=SAYS, mpicxx=SAYS, mpirun=SAYS))
    assert missing == []
    assert found.compiler == f"{tmp_path}/bin/c++ 1.0"
    assert found.transports == "Gloo, MPI"
    assert found.frameworks == "torch 2, tensorflow-cpu 2"
    assert found.notes == ()


def test_without_an_mpi_compiler_there_is_no_mpi_and_a_note_of_it(machine):
    found, _ = detect(machine(cxx=SAYS))
    assert found.mpi == ""
    assert found.transports == "Gloo"
    assert found.notes == (
        "without MPI, as there is no mpicxx: apt install libopenmpi-dev openmpi-bin",
    )


def test_an_mpi_compiler_that_does_not_work_is_left_out(machine, tmp_path):
    found, _ = detect(machine(cxx=SAYS, mpicxx=DECLINES))
    assert found.mpi == ""
    assert f"{tmp_path}/bin/mpicxx compiles no MPI program" in found.notes[0]


def test_all_that_is_missing_is_reported_at_once_with_its_remedy(machine, tmp_path, monkeypatch):
    environment = machine()
    monkeypatch.setattr(flavour, "package", lambda name: "")
    (tmp_path / "include" / "Python.h").unlink()
    (tmp_path / "bin" / "cmake").unlink()
    found, missing = detect(environment)
    assert found is None
    words = ("torch", "tensorflow", "cmake", "Python.h", "C++ compiler")
    assert len(missing) == len(words)
    for word, lack in zip(words, missing, strict=True):
        what, _, remedy = lack.partition(": ")
        assert word in what
        assert "install" in remedy
        assert "\n" not in lack


def test_a_compiler_that_is_too_old_is_reported(machine, tmp_path):
    found, missing = detect(machine(cxx=DECLINES))
    assert found is None
    assert missing == [
        f"{tmp_path}/bin/c++ does not compile C++20: apt install g++ (10 or newer), "
        "or name another by the variable CXX"
    ]


def test_the_variable_cxx_names_the_compiler(machine, tmp_path):
    environment = machine(cxx=DECLINES, mine=SAYS)
    assert detect({**environment, "CXX": "mine"})[0].compiler == f"{tmp_path}/bin/mine 1.0"
    assert compiler_of({"CXX": "none"}) is None


def test_a_real_compiler_compiles_what_it_should_and_nothing_else(needs):
    compiler = needs("c++")
    assert flavour._compiles((compiler, "-std=c++20"), flavour._CXX20)
    assert not flavour._compiles((compiler, "-std=c++17"), "int main() { return f(); }")
    assert flavour._compiles((needs("mpicxx"),), flavour._MPI)


def test_simd_is_what_the_processor_has():
    flags = Path("/proc/cpuinfo").read_text().split()
    assert flavour.simd().split() == [f"-m{n}" for n in ("f16c", "avx", "fma") if n in flags]


@pytest.fixture
def with_cuda(machine, tmp_path, monkeypatch):
    environment = machine(cxx=SAYS, nvcc=SAYS)
    home = tmp_path / "nccl"
    (home / "include").mkdir(parents=True)
    (home / "include" / "nccl.h").touch()
    monkeypatch.setattr(flavour, "_torch_has_cuda", lambda: True)
    monkeypatch.setattr(flavour, "_CUDA", "/nowhere")
    return {**environment, "HOROVOD_GPU_OPERATIONS": "NCCL", "HOROVOD_NCCL_HOME": str(home)}


def test_nccl_is_used_where_it_is_asked_for_and_there(with_cuda):
    assert detect(with_cuda)[0].transports == "Gloo, NCCL"
    del with_cuda["HOROVOD_GPU_OPERATIONS"]
    assert detect(with_cuda)[0].gpu == ""


@pytest.mark.parametrize(
    ("lack", "words"),
    [
        ("nvcc", "there is no nvcc: load the cluster's CUDA module"),
        ("nccl.h", "there is no nccl.h: load NCCL's module, or name HOROVOD_NCCL_HOME"),
        ("torch", "torch 2 is built without CUDA"),
        ("NCCL", "only NCCL is built here"),
    ],
)
def test_why_nccl_is_left_out_is_reported(with_cuda, tmp_path, monkeypatch, lack, words):
    if lack == "nvcc":
        (tmp_path / "bin" / "nvcc").unlink()
    elif lack == "nccl.h":
        (tmp_path / "nccl" / "include" / "nccl.h").unlink()
    elif lack == "torch":
        monkeypatch.setattr(flavour, "_torch_has_cuda", lambda: False)
    else:
        with_cuda["HOROVOD_GPU_OPERATIONS"] = "MPI"
    found, _ = detect(with_cuda)
    assert found.gpu == ""
    asked = with_cuda["HOROVOD_GPU_OPERATIONS"]
    assert f"without HOROVOD_GPU_OPERATIONS={asked}, as {words}" in found.notes


def test_whether_torch_has_cuda_is_known_without_importing_it():
    import torch

    assert flavour._torch_has_cuda() == (torch.version.cuda is not None)
