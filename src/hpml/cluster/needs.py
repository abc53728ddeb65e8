"""What a cluster needs of this machine; what is missing is reported in one line with its remedy."""

import os
import re
import shlex
import shutil
import subprocess
import sys

from hpml.cluster.folder import folder
from hpml.errors import UserError

PACKAGES = {  # program: the Debian package it comes from
    "slurmctld": "slurm-wlm",
    "slurmd": "slurm-wlm",
    "sbatch": "slurm-wlm",
    "munged": "munge",
    "nsenter": "util-linux",
    "unshare": "util-linux",
}
_SYSTEM = ("/usr/local/sbin", "/usr/sbin", "/sbin")


def sudo_command() -> str:
    """The command that is running, as an administrator types it, with this very Python."""
    words = ["sudo"]
    if "HPML_HOME" in os.environ:
        words += ["env", f"HPML_HOME={os.environ['HPML_HOME']}"]
    return shlex.join([*words, sys.executable, "-m", "hpml", *sys.argv[1:]])


def need_root(why: str) -> None:
    """Raises UserError where this process does not run as root."""
    if os.geteuid() != 0:
        raise UserError(f"{why} takes root: {sudo_command()}")


def need_linux() -> None:
    if sys.platform != "linux":
        raise UserError(
            "a virtual cluster takes a Linux kernel: use a virtual machine, or a real cluster"
        )


def need_programs() -> None:
    """Raises UserError naming the packages to install where SLURM or munge is not there."""
    missing = sorted({PACKAGES[name] for name in PACKAGES if find(name) is None})
    if missing:
        programs = ", ".join(name for name in PACKAGES if find(name) is None)
        raise UserError(f"{programs} not found: as root, apt install {' '.join(missing)} (Debian)")


def need_namespaces() -> None:
    """Raises UserError where even root may not make namespaces, as in an ordinary container."""
    kinds = "--net --uts --ipc --mount --pid --fork --mount-proc"
    tried = subprocess.run(
        ["unshare", *kinds.split(), "true"], capture_output=True, text=True, timeout=30
    )
    if tried.returncode:
        last = tried.stderr.strip().splitlines()[-1:] or ["unshare failed"]
        raise UserError(
            f"root may not make namespaces here ({last[0]}): "
            "in a container, start it with docker run --privileged"
        )


def find(program: str) -> str | None:
    """The path of a program, which may be in one of the folders for administrators."""
    return shutil.which(program, path=search_path())


def search_path() -> str:
    """PATH, and the folders for administrators, which an ordinary user's PATH may lack."""
    path = os.environ.get("PATH", os.defpath)
    return os.pathsep.join([path, *(f for f in _SYSTEM if f not in path.split(os.pathsep))])


def slurm_version() -> tuple[int, ...]:
    """The version of the installed slurmd: (22, 5, 8) for 22.05.8."""
    slurmd = find("slurmd") or "slurmd"
    done = subprocess.run([slurmd, "-V"], capture_output=True, text=True, timeout=30)
    match = re.search(r"(\d+)\.(\d+)\.(\d+)", done.stdout)
    if not match:
        raise UserError(
            f"slurmd -V prints {done.stdout.strip()!r}, expected a version: install SLURM"
        )
    return tuple(map(int, match.groups()))


def other_slurm() -> str | None:
    """The cluster name of the machine's own SLURM, if it answers; None without one."""
    if shutil.which("scontrol") is None:
        return None
    environment = dict(os.environ)
    if environment.get("SLURM_CONF") == str(folder().slurm_conf):
        del environment["SLURM_CONF"]
    try:
        done = subprocess.run(
            ["scontrol", "show", "config"],
            env=environment,
            capture_output=True,
            text=True,
            timeout=30,
        )
    except subprocess.TimeoutExpired:
        return None
    if done.returncode:
        return None
    settings = dict(line.partition("=")[::2] for line in done.stdout.splitlines() if "=" in line)
    named = {name.strip(): value.strip() for name, value in settings.items()}
    return named.get("ClusterName") or "unnamed"
