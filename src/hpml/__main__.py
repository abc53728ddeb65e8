"""`python -m hpml` is the command line."""

import sys

from hpml.cli import hand_over, main

if __name__ == "__main__":
    # Of a running server first: what it has imported this process need not
    code = hand_over.hand_over(sys.argv[1:])
    if code is not None:
        sys.exit(code)
    hand_over.may_start = True
    main()
