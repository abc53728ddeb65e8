"""Module 06, torch distributed."""
