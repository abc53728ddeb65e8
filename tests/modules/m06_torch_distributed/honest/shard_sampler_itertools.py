# %%answer shard_sampler
# unusual: Python's own random numbers, itertools, an order that is kept, properties, slots
import random
from itertools import cycle, islice


class ShardSampler:
    __slots__ = ("__dict__", "length", "rank", "seed", "world_size")

    def __init__(self, length: int, rank: int, world_size: int, seed: int = 0) -> None:
        self.length = length
        self.rank = rank
        self.world_size = world_size
        self.seed = seed
        self._epoch, self._orders = 0, {}

    def set_epoch(self, epoch: int) -> None:
        self._epoch = epoch

    @property
    def order(self):
        if self._epoch not in self._orders:
            order = list(range(self.length))
            random.Random(f"{self.seed} {self._epoch}").shuffle(order)
            self._orders[self._epoch] = tuple(order)
        return self._orders[self._epoch]

    def __len__(self) -> int:
        return sum(divmod(self.length + self.world_size - 1, self.world_size)[:1])

    def __iter__(self):
        yield from islice(
            cycle(self.order), self.rank, len(self) * self.world_size, self.world_size
        )
