"""Reading and writing files: whole or not at all, and text that is safe to show."""
