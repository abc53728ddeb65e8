"""The day: its modules, the notebooks they are made of, and a learner's way through them."""
