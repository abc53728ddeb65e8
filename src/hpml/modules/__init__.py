"""The modules of the day, a folder each: their checks, and what only their lectures show."""
