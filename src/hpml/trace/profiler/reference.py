"""Traces of four ranks that come with the course, for readers who cannot record any.

Six steps of data parallel training with DDP over Gloo, on links of 1 Gbit/s: four layers of 512 x
512 weights. What a layer computes is played by waiting, so that four ranks need no four cores. Rank
2 takes 60 ms more to load from step 5 on. Recorded on a machine of two cores, without a GPU:
`python -m hpml.frameworks.reference_ranks` records them anew.
"""

from pathlib import Path

FOLDER = Path(__file__).parent / "four_ranks"  # rank0.pt.trace.json.gz to rank3

RANKS, STEPS = 4, 6
PLANTED = (2, 5, "loading")  # the slow rank, its first slow step, and the phase
SECONDS = 0.06


def size(ranks: int, steps: int) -> float:
    """Bytes that traces of so many ranks and steps would take, in proportion to these."""
    recorded = sum(path.stat().st_size for path in FOLDER.glob("*.json.gz"))
    return recorded * ranks / RANKS * steps / STEPS
