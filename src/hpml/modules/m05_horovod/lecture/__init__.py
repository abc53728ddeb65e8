"""What only the lecture of module 05 shows happen."""
