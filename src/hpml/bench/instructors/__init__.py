"""Benchmarks of the grader, and the answers that they play: learners do not get them."""
