"""What makes plays and knows what is right: no release holds it."""
