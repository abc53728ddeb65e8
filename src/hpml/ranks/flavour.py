"""What ranks communicate with: torch.distributed, or Horovod under PyTorch or TensorFlow.

Each flavour's warm server has imported what those before it have, and more, so that a server of a
later flavour can serve an earlier one too, at the price of a slower fork.
"""

from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Literal

from hpml.errors import UserError

Flavour = Literal["torch", "horovod", "horovod-tensorflow"]
FLAVOURS: tuple[Flavour, ...] = ("torch", "horovod", "horovod-tensorflow")

# Extension modules of Horovod, by the flavour that needs them
_EXTENSIONS = {"horovod": "torch/mpi_lib_v2*.so", "horovod-tensorflow": "tensorflow/mpi_lib*.so"}
_PACKAGES = {"horovod": (), "horovod-tensorflow": ("tensorflow", "tf_keras")}


def check(flavour: str) -> None:
    """Raises UserError where `flavour` is unknown or not installed."""
    if flavour not in FLAVOURS:
        raise UserError(f"flavour {flavour!r}: give one of {', '.join(FLAVOURS)}")
    if why := missing(flavour):
        raise UserError(f"ranks with {flavour}: {why}")


def missing(flavour: Flavour) -> str | None:
    """What this Python lacks for `flavour`, with the remedy; None where all is there."""
    if flavour == "torch":
        return None
    if find_spec("horovod") is None:
        return "Horovod is not installed: ./hpml horovod"
    for package in _PACKAGES[flavour]:
        if find_spec(package) is None:
            return f"{package} is not installed: ./hpml doctor says what to do"
    (folder,) = find_spec("horovod").submodule_search_locations
    if not any(Path(folder).glob(_EXTENSIONS[flavour])):
        framework = _EXTENSIONS[flavour].partition("/")[0]
        return f"Horovod was built without {framework}: ./hpml horovod"
    return None


def order(flavour: Flavour) -> int:
    """Its place among FLAVOURS: a server of one flavour can serve those of smaller order."""
    return FLAVOURS.index(flavour)


def preload(flavour: Flavour) -> None:
    """Import what ranks of `flavour` use; run no op: a process with thread pools must not fork."""
    if order(flavour) >= order("horovod"):
        import horovod.torch

        assert horovod
    if order(flavour) >= order("horovod-tensorflow"):
        from hpml.ranks import warm_tensorflow

        warm_tensorflow.load()


def environment(
    flavour: Flavour, rank: int, world_size: int, per_node: int, port: int
) -> Mapping[str, str]:
    """A rank's environment variables: torchrun's, or horovodrun's.

    The address where Horovod's ranks meet (HOROVOD_GLOO_RENDEZVOUS_ADDR and _PORT) is not among
    them: the launch adds it.
    """
    node, local_rank = divmod(rank, per_node)
    local_size = min(per_node, world_size - node * per_node)
    if flavour == "torch":
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
