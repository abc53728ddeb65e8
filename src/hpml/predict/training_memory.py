"""What a training step with Adam in float32 takes for each parameter, beside what was measured.

4 bytes for the parameter, 4 for its gradient, 8 for Adam's two moments (Rajbhandari et al. 2020,
ZeRO, section 3.1, counts the same for mixed precision). Activations go by the batch.
"""

from collections.abc import Mapping, Sequence

ADAM = {"parameters": 4, "gradients": 4, "optimizer states": 8}  # bytes for each parameter


def beside_formula(measured: Sequence[Mapping[str, int]], parameters: int) -> str:
    """A table in MB: for each kind of tensors the formula, for a rank with so many parameters, and
    the most bytes that each rank had, as `RankEvidence.live.highest` has them."""
    ranks = "".join(f"{f'rank {rank}':>9}" for rank in range(len(measured)))
    lines = [f"{'most MB at one time':22}{'formula':>9}{ranks}"]
    for kind in (*ADAM, "activations"):
        formula = f"{ADAM[kind] * parameters / 1e6:.1f}" if kind in ADAM else "–"
        counted = "".join(f"{by_kind[kind] / 1e6:9.1f}" for by_kind in measured)
        lines.append(f"{kind:22}{formula:>9}{counted}")
    return "\n".join(lines)
