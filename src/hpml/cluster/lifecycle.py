"""Bring a cluster up and take it down; doing either twice does no harm."""

import os
import secrets
import shutil
import socket
import subprocess
import sys
import time
from pathlib import Path

from hpml.cluster import needs
from hpml.cluster.folder import LONGEST_PATH, Folder, folder, folder_to_remove, locked
from hpml.cluster.health import health
from hpml.cluster.nodes import nodes
from hpml.cluster.process import read_pid_file
from hpml.cluster.shape import HEAD, Shape
from hpml.cluster.slurm_conf import cgroup_conf, gres_conf, slurm_conf
from hpml.errors import UserError
from hpml.paths import CHECKOUT, home

PATIENCE = 60.0  # seconds until every node is ready; 64 nodes on 2 cores take about half of it


def up(shape: Shape) -> bool:
    """Bring up a cluster of that shape; False where this very one was up already.

    Raises UserError where it cannot be brought up, and where a cluster of another shape or a broken
    one is in its place.
    """
    shape.check()
    needs.need_linux()
    if folder().path.exists() and not folder().failed.exists():
        return _still_up(shape)
    needs.need_programs()
    needs.need_root("to make namespaces, interfaces and a SLURM")
    needs.need_namespaces()
    with locked("./hpml cluster up"):
        if folder().path.exists() and not folder().failed.exists():  # another process was faster
            return _still_up(shape)
        _down()  # what an earlier attempt left
        try:
            _bring_up(folder(), shape)
        except UserError as error:  # its logs are kept
            _end(folder())
            folder().failed.write_text(f"{error}\n")
            raise
        except BaseException:
            _down()
            raise
    return True


def down() -> bool:
    """End the cluster and all that is left of it; False where there was nothing.

    Raises UserError where root is needed, or where a process does not end.
    """
    if not folder().path.exists() and not folder_to_remove().path.exists():
        return False
    needs.need_root("to end a cluster that root has brought up")
    with locked("./hpml cluster down"):
        _down()
    return True


def _still_up(shape: Shape) -> bool:
    there, _ = folder().plan()
    if problem := health().problem:
        raise UserError(problem)
    if there != shape:
        raise UserError(
            f"a cluster of {there.options()} is up: use it, or ./hpml cluster down first"
        )
    return False


def _bring_up(folder: Folder, shape: Shape) -> None:
    from hpml.cluster import subnet
    from hpml.machine.resources import usable_memory

    if len(os.fsencode(folder.path)) > LONGEST_PATH:
        raise UserError(
            f"{folder.path} is too long for a socket's path: "
            f"set HPML_HOME to a folder whose path is shorter"
        )
    os.umask(0o022)  # other users may use the cluster, though not end it
    network = subnet.choose(folder.path, subnet.in_use())
    folder.make(shape, network)
    folder.hosts.write_text(subnet.hosts_file(network, shape, socket.gethostname()))
    memory = shape.memory(usable_memory())
    folder.slurm_conf.write_text(slurm_conf(folder.path, shape, network, memory))
    (folder.path / "gres.conf").write_text(gres_conf(shape))
    (folder.path / "cgroup.conf").write_text(cgroup_conf(needs.slurm_version()))
    folder.jobs.touch(mode=0o644)  # SLURM would let only root read it
    key = folder.munge / "key-file"
    key.touch(mode=0o600)
    key.write_bytes(secrets.token_bytes(128))

    proc = os.open("/proc", os.O_RDONLY | os.O_DIRECTORY)
    net = os.open("/proc/self/ns/net", os.O_RDONLY)
    try:
        with folder.log(HEAD).open("w") as log:
            head = subprocess.Popen(
                [
                    *"unshare --net --uts --ipc --mount --pid --fork --kill-child".split(),
                    *("--mount-proc", sys.executable, "-m", "hpml.cluster.head"),
                    *(str(folder.path), str(proc), str(net), *shared_folders()),
                ],
                pass_fds=(proc, net),
                env={**os.environ, "PATH": needs.search_path()},
                cwd="/",
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
    finally:
        os.close(proc)
        os.close(net)
    _wait_until_ready(folder, head)
    folder.ready.touch()


def shared_folders() -> list[str]:
    """The folders below /tmp that all nodes see, though each node has a /tmp of its own.

    The project, HPML_HOME, this Python with what PYTHONPATH adds, and the user's home folder.
    """
    added = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    places = [CHECKOUT, home(), Path.home()]
    places += [Path(place) for place in (sys.prefix, sys.base_prefix, *added) if place]
    in_tmp = {
        path
        for place in places
        for path in (place, place.resolve())
        if Path("/tmp") in path.parents and path.exists()
    }
    return sorted(str(path) for path in in_tmp if in_tmp.isdisjoint(path.parents))


def _wait_until_ready(folder: Folder, head: subprocess.Popen) -> None:
    limit = time.monotonic() + PATIENCE
    shape, _ = folder.plan()
    ready = 0
    while time.monotonic() < limit:
        if head.poll() is not None:
            raise UserError(f"the cluster did not come up: {_last_line(folder.log(HEAD))}")
        for name in ("munged", "slurmctld", *(f"{node}.slurmd" for node in shape.names)):
            process = read_pid_file(folder.pid_file(name))
            if process is not None and not process.alive:
                log = folder.log(name.removesuffix(".slurmd"))
                raise UserError(f"the cluster did not come up: {name} ended: {_last_line(log)}")
        ready = _nodes_ready(folder)
        if ready == shape.nodes:
            return
        time.sleep(0.05)
    raise UserError(
        f"the cluster did not come up: {ready} of {shape.nodes} nodes were ready after "
        f"{PATIENCE:g} s: try again with fewer (last in slurmctld's log: "
        f"{_last_line(folder.log('slurmctld'))})"
    )


def _nodes_ready(folder: Folder) -> int:
    """How many nodes SLURM would give work to.

    SLURM is asked only once every slurmd has started: before, sinfo would wait nine seconds.
    """
    shape, _ = folder.plan()
    if any(read_pid_file(folder.pid_file(f"{name}.slurmd")) is None for name in shape.names):
        return 0
    return sum(node.state == "idle" for node in nodes())


def _last_line(log: Path) -> str:
    lines = log.read_text(errors="replace").split("\n") if log.exists() else []
    written = [line.strip() for line in lines if line.strip()]
    return written[-1] if written else f"{log} is empty"


def _down() -> None:
    if folder().path.exists():
        _take_down(folder_to_remove())
        folder().path.rename(folder_to_remove().path)  # from now on nothing writes a pid file there
    _take_down(folder_to_remove())


def _take_down(folder_: Folder) -> None:
    """End the cluster of a folder, wait until it has gone, and remove the folder."""
    if not folder_.path.exists():
        return
    _end(folder_)
    shutil.rmtree(folder_.path)


def _end(folder_: Folder) -> None:
    head = read_pid_file(folder_.pid_file(HEAD))
    if head is not None and not head.kill():
        raise UserError(f"process {head.pid} of the cluster does not end: see `ps {head.pid}`")
    _unplug()


def _unplug() -> None:
    """Remove this machine's end of the cable now; the kernel would do it later."""
    from pyroute2 import IPRoute, NetlinkError

    from hpml.cluster.subnet import interface

    name = interface(folder().path)
    with IPRoute() as netlink:
        limit = time.monotonic() + 10
        while found := netlink.link_lookup(ifname=name):
            try:
                netlink.link("del", index=found[0])
            except NetlinkError:  # removed by the kernel meanwhile
                if time.monotonic() > limit:
                    raise UserError(f"interface {name} does not go away") from None
                time.sleep(0.02)
