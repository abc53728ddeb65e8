"""Module 05, horovod."""
