"""Module 07, hybrid parallelism."""
