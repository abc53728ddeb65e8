"""What only the lecture of module 04 shows happen."""
