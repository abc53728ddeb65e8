"""What programs wrote down while they ran, read back and drawn."""
