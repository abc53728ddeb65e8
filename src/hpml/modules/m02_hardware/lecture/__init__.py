"""What only the lecture of module 02 shows happen."""
