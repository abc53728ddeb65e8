"""What ranks compute and communicate with: PyTorch and torch.distributed; Horovod under PyTorch;
TensorFlow, alone or with Horovod.

The later a flavour, the more its warm server has imported and the slower it forks. A server of one
flavour can serve all others: a rank imports what its server has not.
"""

from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Literal

from hpml.errors import UserError

Flavour = Literal["torch", "horovod", "tensorflow", "horovod-tensorflow"]
FLAVOURS: tuple[Flavour, ...] = ("torch", "horovod", "tensorflow", "horovod-tensorflow")

# Extension modules of Horovod, by the flavour that needs them
_EXTENSIONS = {"horovod": "torch/mpi_lib_v2*.so", "horovod-tensorflow": "tensorflow/mpi_lib*.so"}
_PACKAGES = {
    "tensorflow": ("tensorflow",),
    "horovod": ("horovod",),
    "horovod-tensorflow": ("horovod", "tensorflow", "tf_keras"),
}
# The name of Horovod's own threads: their activity is not progress of the rank
HOROVOD_THREADS = "horovod"


def check(flavour: str) -> None:
    """Raises UserError where `flavour` is unknown or not installed."""
    if flavour not in FLAVOURS:
        raise UserError(f"flavour {flavour!r}: give one of {', '.join(FLAVOURS)}")
    if why := missing(flavour):
        raise UserError(f"ranks with {flavour}: {why}")


def missing(flavour: Flavour) -> str | None:
    """What this Python lacks for `flavour`, with the remedy; None where all is there."""
    for package in _PACKAGES.get(flavour, ()):
        if find_spec(package) is None and package == "horovod":
            return "Horovod is not installed: ./hpml horovod"
        if find_spec(package) is None:
            return f"{package} is not installed: ./hpml doctor says what to do"
    if not by_horovod(flavour):
        return None
    horovod = find_spec("horovod")
    assert horovod is not None  # found above
    assert horovod.submodule_search_locations is not None
    (folder,) = horovod.submodule_search_locations
    if not any(Path(folder).glob(_EXTENSIONS[flavour])):
        framework = _EXTENSIONS[flavour].partition("/")[0]
        return f"Horovod was built without {framework}: ./hpml horovod"
    return None


def order(flavour: Flavour) -> int:
    """Its place among FLAVOURS: a server of a later one serves those before it quickly enough."""
    return FLAVOURS.index(flavour)


def by_horovod(flavour: Flavour) -> bool:
    """Whether its ranks communicate through Horovod; the others do by torch.distributed."""
    return flavour in _EXTENSIONS


def with_tensorflow(flavour: Flavour) -> bool:
    """Whether its ranks have TensorFlow."""
    return flavour in ("tensorflow", "horovod-tensorflow")


def preload(flavour: Flavour) -> None:
    """Import what ranks of `flavour` use; run no op: a process with thread pools must not fork."""
    if by_horovod(flavour):
        import horovod.torch

        assert horovod
    if with_tensorflow(flavour):
        from hpml.ranks import warm_tensorflow

        warm_tensorflow.load(with_horovod=by_horovod(flavour))


def environment(
    flavour: Flavour, rank: int, world_size: int, per_node: int, port: int
) -> Mapping[str, str]:
    """A rank's environment variables: torchrun's, or horovodrun's.

    The address where Horovod's ranks meet (HOROVOD_GLOO_RENDEZVOUS_ADDR and _PORT) is not among
    them: the launch adds it.
    """
    node, local_rank = divmod(rank, per_node)
    local_size = min(per_node, world_size - node * per_node)
    if not by_horovod(flavour):
        return {
            "RANK": str(rank),
            "WORLD_SIZE": str(world_size),
            "LOCAL_RANK": str(local_rank),
            "LOCAL_WORLD_SIZE": str(local_size),
            "GROUP_RANK": str(node),
            "MASTER_ADDR": "127.0.0.1",
            "MASTER_PORT": str(port),
        }
    return horovod_environment(rank, [f"node{r // per_node}" for r in range(world_size)]) | {
        "HOROVOD_LOG_LEVEL": "fatal",  # the launch's diagnosis reports errors
        "HOROVOD_LOG_HIDE_TIME": "1",
    }


def horovod_environment(rank: int, hosts: Sequence[str]) -> dict[str, str]:
    """The variables that horovodrun sets for `rank` among ranks on these hosts.

    Without the address where they meet.
    """
    before = hosts[:rank].count(hosts[rank])
    # Horovod counts across the hosts that have a process of this local rank.
    across = [host for host in dict.fromkeys(hosts) if hosts.count(host) > before]
    return {
        "HOROVOD_RANK": str(rank),
        "HOROVOD_SIZE": str(len(hosts)),
        "HOROVOD_LOCAL_RANK": str(before),
        "HOROVOD_LOCAL_SIZE": str(hosts.count(hosts[rank])),
        "HOROVOD_CROSS_RANK": str(across.index(hosts[rank])),
        "HOROVOD_CROSS_SIZE": str(len(across)),
        "HOROVOD_HOSTNAME": hosts[rank],
        "HOROVOD_CONTROLLER": "gloo",
        "HOROVOD_CPU_OPERATIONS": "gloo",
    }
