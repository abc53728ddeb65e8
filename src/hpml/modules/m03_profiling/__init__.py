"""Module 03, profiling."""
