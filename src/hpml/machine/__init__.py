"""What this process may use of the machine it is on."""
