"""Module 08, case studies."""
