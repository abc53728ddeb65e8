"""One small training script, and the same one distributed by each framework.

The serial scripts are where the others begin; what a framework asks for is the difference between
two files. `task` has what they share, `run` starts them as their users would and compares them.
"""
