"""The course: its modules, their notebooks, and a learner's progress."""
