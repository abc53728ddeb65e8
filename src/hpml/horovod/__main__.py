"""`python -m hpml.horovod`, which ./hpml runs once for each environment. Exit code 0 or 2."""

import signal
import sys

from hpml.errors import DONE, USAGE
from hpml.horovod.install import ensure
from hpml.horovod.progress import Progress


def main() -> int:
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    progress = Progress()
    try:
        state = ensure(progress)
    except KeyboardInterrupt:
        progress.end()
        return 128 + signal.SIGINT
    if state.works:
        progress.report(f"Horovod {state} is there")
        return DONE
    progress.report(
        f"no Horovod: {state.reason}. All but module 05 works without; ./hpml horovod tries again"
    )
    return USAGE


if __name__ == "__main__":
    sys.exit(main())
