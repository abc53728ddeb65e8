"""What only the lecture of module 08 shows happen."""

BUSY = "That can be: the ranks share this machine's cores with other programs."
