"""Libraries that the lecture shows where they are installed."""

import importlib.util


def missing(package: str) -> str:
    """What to do for `package` where it is not installed; empty where it is."""
    if importlib.util.find_spec(package) is None:
        return f"{package} is not installed: it is optional, pip install -e '.[{package}]'"
    return ""
