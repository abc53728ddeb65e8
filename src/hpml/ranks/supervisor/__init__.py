"""One for each launch, forked by the server: what ranks are set up with, counted and ended by."""
