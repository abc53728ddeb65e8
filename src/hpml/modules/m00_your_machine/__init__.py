"""Module 00, your machine."""
