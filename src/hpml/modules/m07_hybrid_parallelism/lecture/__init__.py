"""What only the lecture of module 07 shows happen."""
