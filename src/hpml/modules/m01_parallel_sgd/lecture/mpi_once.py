"""One all-reduce under mpirun, and nothing else: `mpi_once.py BYTES`. Needs no hpml."""

import sys

import numpy as np
from mpi4py import MPI

if __name__ == "__main__":
    MPI.COMM_WORLD.Allreduce(MPI.IN_PLACE, np.ones(int(sys.argv[1]) // 4, np.float32))
