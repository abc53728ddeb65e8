"""Module 02, hardware."""
