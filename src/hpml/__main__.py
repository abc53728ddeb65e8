"""`python -m hpml` is the command line."""

from hpml.cli import main

if __name__ == "__main__":
    main()
