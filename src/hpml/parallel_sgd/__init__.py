"""Parallel SGD on a loss of two weights, synchronous or not, with every update logged."""
