"""Right answers and runs, for the tests of the checks."""

from ....made_runs import (
    hand_made,
    played,
    solution,
    with_ranks,
    with_taken,
    with_value,
)
