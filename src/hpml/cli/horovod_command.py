"""./hpml horovod: build Horovod, or report what is there."""

from typing import Annotated

import typer


def horovod(
    anew: Annotated[
        bool, typer.Option("--anew", help="Build it even if it is there, or in the cache.")
    ] = False,
) -> int:
    """Build Horovod for module 05, where it is not there yet, and verify it on two ranks.

    The wheel is kept in ~/.cache/hpml (or XDG_CACHE_HOME, or HPML_CACHE) for the next checkout.
    HOROVOD_GPU_OPERATIONS=NCCL builds it with NCCL where CUDA's compiler and NCCL's header are.
    Exit code 0 when it works, 2 when it cannot be built.
    """
    import signal
    import sys

    from hpml.errors import DONE, UserError
    from hpml.horovod import install
    from hpml.horovod.progress import Progress

    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    progress = Progress()
    try:
        state = install.ensure(progress, anew)
    finally:
        progress.end()
    if not state.works:
        raise UserError(f"no Horovod: {state.reason}")
    print(f"Horovod {state}")
    for note in state.notes:
        print(f"  {note}")
    return DONE
