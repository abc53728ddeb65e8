"""The links of a GPU cluster: where each is, what it carries, and the source.

The example is a node with two sockets (Xeon Platinum 8480C) and eight H100 GPUs (NVIDIA DGX H100).
Rates are peak rates in one direction; vendors often give the sum of both. With two modules on a
channel, as in a node with 2 TB, DDR5 runs at 4400 MT/s instead of 4800.
"""

from dataclasses import dataclass

H100 = "NVIDIA, H100 Tensor Core GPU data sheet, H100 SXM"
XEON = "Intel, 4th generation Xeon Scalable: 8 channels of DDR5, one module on each"
UPI = "Intel, 4th generation Xeon Scalable: UPI 2.0"
POD = "NVIDIA, DGX BasePOD reference architecture, core components: ConnectX-7"
MACHINE = "NVIDIA DGX H100, with two Xeon Platinum 8480C and eight H100 GPUs"
ETHERNET = "IEEE 802.3ab, 1000BASE-T"


@dataclass(frozen=True)
class Link:
    """One kind of link. `rate` is in bytes per second in one direction, None where the source gives
    none; `stated` is the figure as the source has it."""

    key: str  # under which the picture finds it
    name: str
    between: str
    rate: float | None
    stated: str
    source: str


LINKS = (
    Link("hbm", "HBM3", "a GPU and its memory", 3.35e12, "3.35 TB/s", H100),
    Link("nvlink", "NVLink 4", "GPUs of a node", 450e9, "900 GB/s, both directions", H100),
    Link("ddr", "DDR5", "a socket and its memory", 8 * 8 * 4.8e9, "8 × 8 B × 4800 MT/s", XEON),
    Link("pcie", "PCIe 5.0 x16", "GPU, NIC and socket", 64e9, "128 GB/s, both directions", H100),
    Link("upi", "UPI", "the sockets of a node", None, "16 GT/s a link", UPI),
    Link("network", "InfiniBand NDR", "a NIC and the switch", 400e9 / 8, "400 Gbit/s", POD),
    Link("ethernet", "1 Gbit Ethernet", "for comparison", 1e9 / 8, "1 Gbit/s", ETHERNET),
)


def caption() -> str:
    """The machine, what has no bar and why, and the sources, for below the picture."""
    sources = "; ".join(dict.fromkeys(link.source for link in LINKS))
    without = " and ".join(link.name for link in LINKS if link.rate is None)
    return (
        f"The rates are those of an {MACHINE}. {without} has no bar: its source gives transfers "
        f"per second, and no bytes. Sources: {sources}."
    )
