"""What a message costs over links that have names: α and β by data sheet, for a `Network`.

Rates are nominal, of one direction. Latencies are those with which NCCL itself reckons for each hop
of a ring with large messages: 3.4 µs over NVLink, 5.7 µs over PCI Express, 14 µs over a network
(NVIDIA, nccl, src/graph/tuning.cc, `hwLat`, ring, simple protocol).
"""

import re

from hpml.errors import UserError
from hpml.predict.collectives import Cost
from hpml.predict.scaling import Level, Network

NVLINK, PCIE, NET = 3.4e-6, 5.7e-6, 14e-6  # seconds
# Bytes/s of all of a GPU's links: as in hardware.csv. PCIe 3: 8 GT/s × 16 lanes × 128/130.
INSIDE = {
    "nvlink1": Cost(NVLINK, 1 / 80e9),
    "nvlink2": Cost(NVLINK, 1 / 150e9),
    "nvlink3": Cost(NVLINK, 1 / 300e9),
    "nvlink4": Cost(NVLINK, 1 / 450e9),
    "pcie3": Cost(PCIE, 1 / 15.75e9),
    "pcie4": Cost(PCIE, 1 / 31.5e9),
    "pcie5": Cost(PCIE, 1 / 63.0e9),
}
BY_GPU = {"p100": "nvlink1", "v100": "nvlink2", "a100": "nvlink3", "h100": "nvlink4"}
UNITS = {"mbit": 1e6, "gbit": 1e9}


def cost_of(text: str) -> Cost:
    """What `text` means: a name of INSIDE, or a network's rate as in 25gbit or 100mbit.

    Raises UserError for anything else.
    """
    wanted = text.strip().lower()
    if wanted in INSIDE:
        return INSIDE[wanted]
    match = re.fullmatch(r"(\d+(?:\.\d+)?)([mg]bit)", wanted)
    if not match or not float(match[1]):
        raise UserError(
            f"network {text!r}: give a rate such as 25gbit or 100mbit, or {', '.join(INSIDE)}"
        )
    return Cost(NET, 8 / (float(match[1]) * UNITS[match[2]]))


def inside_of(gpu: str) -> str:
    """The name of the link between GPUs of a node: NVLink where the GPU has it, else PCIe 3."""
    return BY_GPU.get(gpu.lower(), "pcie3")


def nodes(per_node: int, inside: Cost, between: Cost) -> Network:
    """Nodes of `per_node` ranks; with one rank in each, the network between them alone."""
    outer = Level(None, between)
    return Network((Level(per_node, inside), outer) if per_node > 1 else (outer,))
