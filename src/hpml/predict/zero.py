"""What a rank holds between steps when states are sharded: ZeRO's three stages, in bytes.

Rajbhandari et al. 2020, ZeRO: Memory Optimizations Toward Training Trillion Parameter Models,
arXiv:1910.02054, sections 3.1 (Adam in mixed precision) and 5 (the stages; figure 1).
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class Bytes:
    """Bytes of each kind; for one parameter, or of a rank."""

    parameters: float
    gradients: float
    states: float

    @property
    def total(self) -> float:
        return self.parameters + self.gradients + self.states


# Adam in mixed precision: 16-bit parameters and gradients; a 32-bit copy of the parameters and two
# moments, which all count as states of the optimizer
MIXED_ADAM = Bytes(2, 2, 12)


def on_a_rank(stage: int, parameters: float, ranks: int, each: Bytes = MIXED_ADAM) -> Bytes:
    """Bytes that one of `ranks` holds of a model of so many `parameters`, without activations.

    Stage 0 is data parallelism: all of it on each rank. Stage 1 shards the states of the optimizer,
    stage 2 the gradients as well, stage 3 the parameters as well; what is sharded is divided by the
    number of ranks. Raises ValueError for another stage.
    """
    if stage not in range(4):
        raise ValueError(f"ZeRO has the stages 0 to 3, not {stage}")
    whole, part = parameters, parameters / ranks
    return Bytes(
        each.parameters * (part if stage >= 3 else whole),
        each.gradients * (part if stage >= 2 else whole),
        each.states * (part if stage >= 1 else whole),
    )
