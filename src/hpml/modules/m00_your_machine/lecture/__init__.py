"""What only the lecture of module 00 shows happen."""
