"""What `./hpml site check` runs on each of two nodes: is the course there, and do ranks meet?

Each rank leaves RANK.json in the folder that is named: its node's name, what ./hpml doctor finds
there, and how many ranks have met, in how many seconds, by which back end.
"""

import json
import socket
import sys
import time
from dataclasses import asdict
from pathlib import Path

OF_A_NODE = {"Python", "torch", "GPUs", "data", "user namespaces"}  # facts


def main(folder: Path) -> None:
    import torch
    import torch.distributed as dist

    from hpml import distributed_environment, doctor
    from hpml.train.hardware import pick_device, process_group

    place = distributed_environment.read()
    facts = [asdict(fact) for fact in doctor.facts() if fact.name in OF_A_NODE]
    found = {"node": socket.gethostname(), "facts": facts, "ranks": 0}
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / f"{place.rank}.json"
    file.write_text(json.dumps(found))
    device = pick_device("auto", place.local_rank)
    began = time.monotonic()
    with process_group(place, device):
        total = torch.ones(1, device=device)
        if dist.is_initialized():
            dist.all_reduce(total)
            found["by"] = dist.get_backend()
        found |= {"ranks": int(total.item()), "seconds": time.monotonic() - began}
        file.write_text(json.dumps(found))


if __name__ == "__main__":
    from hpml.train.leaving import leave

    main(Path(sys.argv[1]))
    leave(0)
