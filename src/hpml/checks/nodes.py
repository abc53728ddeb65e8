"""On which nodes the ranks of a play are, as its launchers' variables have it.

On one node a rank and its number there are the same, and so are the ranks of the job and of the
node: an answer that takes one for the other is right there, and ruins a job on a cluster.
"""

PER_NODE = {3: 1, 4: 2}  # by the ranks of a launch; all others are on one node


def per_node(ranks: int) -> int:
    """Ranks of each node: three nodes of one, two nodes of two, else one node."""
    return PER_NODE.get(ranks, ranks)
