"""pyproject.toml, requirements.lock and environment.yml say the same."""

import sys
from importlib import metadata
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name

from hpml.home import CHECKOUT

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

PYTHONS = ("3.10", "3.11", "3.12")
PROJECT = tomllib.loads((CHECKOUT / "pyproject.toml").read_text())["project"]
LOCK = [
    Requirement(line.partition("#")[0])
    for line in (CHECKOUT / "requirements.lock").read_text().splitlines()
    if line.partition("#")[0].strip()
]
CONDA = yaml.safe_load((CHECKOUT / "environment.yml").read_text())


def on_linux(python: str) -> dict[str, str]:
    """The markers of requirements, as they are on Linux with this Python."""
    return {
        "python_version": python,
        "python_full_version": f"{python}.4",
        "sys_platform": "linux",
        "platform_system": "Linux",
        "platform_machine": "x86_64",
        "os_name": "posix",
    }


def locked(python: str) -> dict[str, str]:
    """Package to version, as the lock has it for this Python."""
    here = on_linux(python)
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
        assert installed == versions[name], f"{name} {installed} is installed: run ./hpml"


def test_this_package_is_installed_from_this_checkout():
    assert Path(__file__).resolve().is_relative_to(CHECKOUT)
    assert metadata.version("hpml") == PROJECT["version"]
