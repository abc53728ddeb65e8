"""Right answers and runs, for the tests of the checks."""

from ....made_runs import played, solution, with_ranks
