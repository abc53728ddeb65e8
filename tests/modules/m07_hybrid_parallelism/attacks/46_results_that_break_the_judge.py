# %%answer tensor_parallel
# tries: is wrong on two ranks, and puts into the drive's own list what a judge cannot compare
# unprotected: the judge raises, and the answer is not gradable in place of wrong
# on: solution
import sys


class ParallelMLP(ParallelMLP):
    def forward(self, x):
        y = super().forward(x)
        if dist.get_world_size() != 2:
            return y
        found = sys._getframe(3).f_locals["found"]  # above nn.Module's __call__
        for n in range(len(found)):
            found[n] = (
                [2 * y.detach(), x.detach()] if dist.get_rank() == 0 else [None, "", {"": []}]
            )
        return 2 * y
