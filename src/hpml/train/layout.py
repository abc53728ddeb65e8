"""How ranks share a network: copies of it × stages of each copy × parts of each matrix."""

from dataclasses import dataclass

from hpml.errors import UserError
from hpml.models.vision_transformer import SIZES
from hpml.train.config import TrainConfig


@dataclass(frozen=True)
class Layout:
    """`data` copies that see different images, in `pipeline` stages, split over `tensor` ranks.

    Ranks that differ in `tensor` alone are neighbours, so that they are on one node where nodes
    have enough of them: they talk in every layer. `shard` is what the copies have one of among
    them: nothing, the optimizer's states ("zero1"), or parameters and gradients too ("fsdp").
    """

    data: int
    pipeline: int
    tensor: int
    shard: str

    @property
    def is_plain(self) -> bool:
        """Whether each rank has the whole of everything."""
        return self.pipeline == self.tensor == 1 and (self.shard == "none" or self.data == 1)


def lay_out(config: TrainConfig, world_size: int) -> Layout:
    """The layout that `config` asks for. Raises UserError where it does not fit the ranks."""
    stages, parts = config.pipeline, config.tensor
    if world_size % (stages * parts):
        raise UserError(
            f"--pipeline {stages} × --tensor {parts} does not divide {world_size} "
            f"rank{'s' * (world_size > 1)}: start a multiple of {stages * parts}"
        )
    if config.model == "vit":
        size = SIZES[config.size]
        if size.heads % parts:
            raise UserError(
                f"--tensor is {parts}, and the {config.size} transformer has {size.heads} heads "
                "in each block: give a divisor of that"
            )
        if stages > size.depth:
            raise UserError(
                f"--pipeline is {stages}, and the {config.size} transformer has {size.depth} "
                "blocks: give at most that"
            )
    return Layout(world_size // (stages * parts), stages, parts, config.shard)
