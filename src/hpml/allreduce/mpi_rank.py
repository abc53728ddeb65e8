"""What runs on each rank under mpirun: `mpi_rank.py FILE BYTESxREPEATS…`. Needs no hpml."""

import json
import sys
import time

import numpy as np
from mpi4py import MPI


def main(path: str, work: list[str]) -> None:
    world = MPI.COMM_WORLD
    seconds = []
    for nbytes, repeats in (map(int, item.split("x")) for item in work):
        tensor = np.ones(max(1, nbytes // 4), np.float32)
        world.Allreduce(MPI.IN_PLACE, tensor)
        if not (tensor == world.size).all():
            raise SystemExit(f"rank {world.rank}: the sum of ones is not {world.size} everywhere")
        tensor[:] = 0
        taken = np.zeros(repeats)
        for repeat in range(repeats):
            world.Barrier()
            started = time.perf_counter()
            world.Allreduce(MPI.IN_PLACE, tensor)
            taken[repeat] = time.perf_counter() - started
        world.Allreduce(MPI.IN_PLACE, taken, MPI.MAX)
        seconds.append(taken.tolist())
    if world.rank == 0:
        with open(path, "w") as file:
            json.dump(seconds, file)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
