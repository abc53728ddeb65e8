"""What processor this is."""

import platform
from pathlib import Path


def processor() -> str:
    """Its name, or what kind it is where the system does not say."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()
