"""What torch.profiler and TensorFlow's profiler recorded: read, broken down, drawn."""
