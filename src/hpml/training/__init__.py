"""The parts of the one training script, `hpml.train`: one idea to a file."""
