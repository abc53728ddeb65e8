"""Module 04, frameworks."""
