"""Ranks of a launch as tasks of a SLURM job step, on whatever nodes it has.

    notebook ── srun ──► slurmd ► agent ── fork ──► rank        one agent a task
    Running ◄─ channel, output, stacks ─► Step ◄═ TCP ═► rank
            ◄─ control ─────────────────► Step ◄═ TCP ═► agent

For a launch that is made within `hpml.ranks.parent.warm.using(SlurmRanks(…))` (`.slurm_ranks`), a
`Step` (`.step`) takes the place of a supervisor. It starts srun with an agent (`.agent`) for each
rank, and passes on what goes between the launch and the ranks. Nothing else is running anywhere:
srun ends with the step, and the agents with srun or with their connection.

Each connection proves on both sides that it knows a key of this launch (`.connection`): others on
the cluster can reach the port, too. What goes over it is not encrypted, as messages between ranks
are not.
"""
