"""`python -m hpml.record`: also from a source tree, where nothing is installed but torch."""

import sys

from hpml.errors import USAGE, UserError
from hpml.record.command import main

if __name__ == "__main__":
    try:
        sys.exit(main(program="python -m hpml.record"))
    except UserError as error:
        print(error, file=sys.stderr)
        sys.exit(USAGE)
