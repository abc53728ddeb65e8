"""`python -m hpml` is the command line."""

import sys

from hpml.cli import INTERRUPTED, hand_over, main

if __name__ == "__main__":
    try:  # of a running server first: what it has imported this process need not
        code = hand_over.hand_over(sys.argv[1:])
    except KeyboardInterrupt:
        print("hpml: interrupted", file=sys.stderr)
        code = INTERRUPTED
    if code is not None:
        sys.exit(code)
    hand_over.may_start = True
    main()
