"""What only the lecture of module 01 shows happen."""
