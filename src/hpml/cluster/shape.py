"""The shape of a cluster: how many nodes, how large, how fast a network; and their names."""

from dataclasses import asdict, dataclass
from typing import Any

from hpml.errors import UserError

MOST_NODES, MOST_CPUS, MOST_GPUS = 64, 256, 16
MIB_PER_CPU = 2048  # what the course's job scripts ask for at most

HEAD = "head"  # the node that SLURM's controller runs on


@dataclass(frozen=True)
class Shape:
    """A cluster's nodes: their number, what each declares to have, and the rate of its link.

    CPUs and GPUs are only declared. With the default every job script of the course is accepted as
    it stands, but those that ask for GPUs.
    """

    nodes: int = 4
    cpus: int = 32
    link: str = "1gbit"
    gpus: int = 0

    def check(self) -> None:
        """Raises UserError, in one line, for a shape that no cluster here can have."""
        if not 1 <= self.nodes <= MOST_NODES:
            raise UserError(f"--nodes {self.nodes}: give a number from 1 to {MOST_NODES}")
        if not 1 <= self.cpus <= MOST_CPUS:
            raise UserError(f"--cpus {self.cpus}: give a number from 1 to {MOST_CPUS}")
        if not 0 <= self.gpus <= MOST_GPUS:
            raise UserError(f"--gpus {self.gpus}: give a number from 0 to {MOST_GPUS}")
        if "=" in self.link:
            raise UserError(f"link {self.link!r}: all nodes have the same rate: give one, as 1gbit")
        from hpml.network import link

        try:
            link.parse_rate(self.link)
        except UserError as error:
            raise UserError(str(error).replace(link.EXAMPLES, "100mbit or 1gbit")) from None

    @property
    def rate(self) -> int:
        """The rate of each node's link, in bit/s."""
        from hpml.network.link import parse_rate  # brings torch along

        return parse_rate(self.link)

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(f"n{i + 1}" for i in range(self.nodes))

    @property
    def host_list(self) -> str:
        """All names, as SLURM abbreviates them: n[1-4]."""
        return "n1" if self.nodes == 1 else f"n[1-{self.nodes}]"

    def memory(self, machine: int) -> int:
        """MiB that each node declares, on a machine of `machine` bytes.

        Its share, but at least 2 GiB for each CPU. Like the CPUs, this is only declared, so that a
        job starts even where the shares are small: the machine may well have room for it.
        """
        return max(machine // 2**20 // self.nodes, MIB_PER_CPU * self.cpus)

    def record(self) -> dict[str, Any]:
        return asdict(self)

    def options(self) -> str:
        """As options of the command line."""
        gpus = f" --gpus {self.gpus}" if self.gpus else ""
        return f"--nodes {self.nodes} --cpus {self.cpus} --link {self.link}{gpus}"

    def __str__(self) -> str:
        nodes = f"{self.nodes} node{'s' * (self.nodes > 1)}"
        cpus = f"{self.cpus} CPU{'s' * (self.cpus > 1)}"
        gpus = f" and {self.gpus} make-believe GPU{'s' * (self.gpus > 1)}" if self.gpus else ""
        return f"{nodes}, {cpus}{gpus} each, links of {self.link}"
