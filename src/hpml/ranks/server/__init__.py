"""The warm server, which has imported what ranks use, and what it is forked from."""
