"""Timelines and ledgers that programs recorded, read and drawn."""
