"""Module 01, parallel sgd."""
