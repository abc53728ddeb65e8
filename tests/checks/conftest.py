"""Right answers, for the tests of the rules of all exercises."""

from ..made_runs import solution
