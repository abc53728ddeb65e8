"""What only the lecture of module 06 shows happen."""
