"""What only the lecture of module 08 shows happen."""
