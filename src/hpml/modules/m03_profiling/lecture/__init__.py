"""What only the lecture of module 03 shows happen."""
