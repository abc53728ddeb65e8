"""pyproject.toml, requirements.lock and environment.yml say the same."""

import runpy
import subprocess
import sys
import zipfile
from importlib import metadata
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name

from hpml.paths import CHECKOUT

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

PYTHONS = ("3.10", "3.11", "3.12")
PROJECT = tomllib.loads((CHECKOUT / "pyproject.toml").read_text())["project"]
LINES = [
    line.partition("#")[0].strip()
    for line in (CHECKOUT / "requirements.lock").read_text().splitlines()
]
LOCK = [Requirement(line) for line in LINES if line and not line.startswith("-")]
CONDA = yaml.safe_load((CHECKOUT / "environment.yml").read_text())


def on_linux(python: str, machine: str = "x86_64") -> dict[str, str]:
    """The markers of requirements, as they are on Linux with this Python."""
    return {
        "python_version": python,
        "python_full_version": f"{python}.4",
        "sys_platform": "linux",
        "platform_system": "Linux",
        "platform_machine": machine,
        "os_name": "posix",
    }


def locked(python: str, machine: str = "x86_64") -> dict[str, str]:
    """Package to version, as the lock has it for this Python."""
    here = on_linux(python, machine)
    chosen = [line for line in LOCK if line.marker is None or line.marker.evaluate(here)]
    versions = {canonicalize_name(line.name): str(line.specifier)[2:] for line in chosen}
    assert len(versions) == len(chosen), "a package is locked twice"
    return versions


def test_every_line_of_the_lock_is_one_exact_version_of_a_package_by_name():
    for line in LOCK:
        (pin,) = line.specifier
        assert pin.operator == "=="
        assert not pin.version.endswith("*")
        assert line.url is None


@pytest.mark.parametrize("python", PYTHONS)
def test_every_dependency_is_locked_at_a_version_that_it_allows(python):
    versions = locked(python)
    for dependency in map(Requirement, PROJECT["dependencies"]):
        if dependency.marker is None or dependency.marker.evaluate(on_linux(python)):
            version = versions[canonicalize_name(dependency.name)]
            assert version in dependency.specifier, f"{dependency} is locked at {version}"


def test_the_lock_leaves_the_cuda_packages_to_torch():
    cuda = [line.name for line in LOCK if line.name.startswith(("nvidia", "cuda", "triton"))]
    assert cuda == []


def test_the_only_other_line_names_the_folder_with_the_stand_in_for_tensorflow():
    assert [line for line in LINES if line.startswith("-")] == ["--find-links packages"]


def test_tensorflow_is_the_cpu_build_once(tmp_path):
    on_x86 = locked("3.11")
    assert on_x86["tensorflow"] == f"{on_x86['tensorflow-cpu']}+cpu"
    assert on_x86["tf-keras"] == on_x86["tensorflow-cpu"]
    on_arm = locked("3.11", "aarch64")  # where the package tensorflow is the CPU build
    assert "tensorflow-cpu" not in on_arm
    assert on_arm["tensorflow"] == on_x86["tensorflow-cpu"]


def test_the_stand_in_for_tensorflow_is_what_its_program_makes_and_has_no_code(tmp_path):
    (wheel,) = (CHECKOUT / "packages").glob("*.whl")
    (program,) = (CHECKOUT / "packages").glob("*.py")
    made = runpy.run_path(str(program))
    assert made["write"](tmp_path).name == wheel.name
    assert (tmp_path / wheel.name).read_bytes() == wheel.read_bytes()
    assert made["VERSION"] == locked("3.11")["tensorflow-cpu"]
    names = zipfile.ZipFile(wheel).namelist()
    assert {name.partition("/")[2] for name in names} == {"METADATA", "WHEEL", "RECORD"}


def test_what_is_installed_fits_together():
    done = subprocess.run(
        [sys.executable, "-m", "pip", "check"], capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stdout


def test_the_project_allows_just_the_pythons_that_the_lock_is_made_for():
    allowed = SpecifierSet(PROJECT["requires-python"])
    assert [f"3.{minor}" for minor in range(20) if f"3.{minor}" in allowed] == list(PYTHONS)


def test_conda_takes_a_python_of_the_project_and_all_packages_from_the_lock():
    (python,) = [item for item in CONDA["dependencies"] if str(item).startswith("python=")]
    assert python.partition("=")[2] in PYTHONS
    (pip,) = [item["pip"] for item in CONDA["dependencies"] if isinstance(item, dict)]
    assert pip == ["-r requirements.lock", "-e ."]
    assert CONDA["name"] == PROJECT["name"]


def test_conda_installs_nothing_twice_that_the_lock_pins():
    conda = {str(item).partition("=")[0] for item in CONDA["dependencies"]}
    assert conda.isdisjoint(canonicalize_name(line.name) for line in LOCK)


def test_what_is_installed_is_what_is_locked():
    versions = locked(f"3.{sys.version_info.minor}")
    direct = {canonicalize_name(Requirement(line).name) for line in PROJECT["dependencies"]}
    for name in direct & versions.keys():
        installed = metadata.version(name).partition("+")[0]  # without "+cpu"
        assert installed == versions[name].partition("+")[0], (
            f"{name} {installed} is installed: run ./hpml"
        )


def test_this_package_is_installed_from_this_checkout():
    assert Path(__file__).resolve().is_relative_to(CHECKOUT)
    assert metadata.version("hpml") == PROJECT["version"]
