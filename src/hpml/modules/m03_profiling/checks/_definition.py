"""When a rank communicates and when it computes: the definition in the texts of three exercises.

step_breakdown, find_the_straggler and overlap have it in the same words. `name` is an event's.
"""


def communicates(name: str) -> bool:
    """Whether the rank communicates while this event goes on, on whichever thread."""
    return name.startswith(("gloo:", "nccl:"))


def computes(name: str) -> bool:
    """Whether the rank computes while this event goes on, on whichever thread."""
    return name.startswith("aten::")
