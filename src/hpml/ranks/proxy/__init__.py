"""Beside a rank, out of its reach: makes its calls, where they have to be believed."""
