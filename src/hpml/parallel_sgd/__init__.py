"""Parallel SGD on a loss of two weights, to look at: in step or not, every update logged."""
