"""TensorBoard with torch_tb_profiler's views, on a machine with no internet."""
