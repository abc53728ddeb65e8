"""The process that calls `launch`: it knows what happened, and runs nothing of an answer."""
