"""Record the traces of `hpml.trace.profiler.reference` anew.

    python -m hpml.frameworks.reference_ranks

On a machine with nothing else to do: it fails where the traces do not show what was planted.
"""

import gzip
import json
import tempfile
from pathlib import Path

from hpml.frameworks.profiled_ranks import Slow, Training, profile_ranks
from hpml.trace.profiler import reference
from hpml.trace.profiler.straggler import straggler

TRAINING = Training(
    width=512,
    forward=0.01,
    backward=0.02,
    loading=0.03,
    bucket_mb=25.0,
    slow=Slow(*reference.PLANTED, reference.SECONDS),
)


def record(folder: Path) -> None:
    """Traces of four ranks, into `folder`, as small files without a word of this machine."""
    with tempfile.TemporaryDirectory() as scratch:
        found = straggler(profile_ranks(TRAINING, reference.RANKS, scratch, link="1gbit"))
        if (found.rank, found.since, found.phase) != reference.PLANTED:
            raise SystemExit(f"the traces do not show what was planted: {found}")
        folder.mkdir(exist_ok=True)
        for path in Path(scratch).glob("*.json"):
            trace = json.loads(path.read_text())
            trace |= {"traceName": "", "host_name": "n1"}
            name = f"{path.name.partition('.')[0]}.pt.trace.json.gz"
            data = json.dumps(trace, separators=(",", ":")).encode()
            (folder / name).write_bytes(gzip.compress(data, mtime=0))


if __name__ == "__main__":
    record(reference.FOLDER)
