"""Ranks of a launch as tasks of a SLURM job step, on whatever nodes it has.

    notebook ── srun ──► slurmd ► agent ── fork ──► rank        one agent a task
    Running ◄─ channel, output, stacks ─► JobStep ◄═ TCP ═► rank
            ◄─ control ─────────────────► JobStep ◄═ TCP ═► agent

For a launch that is made within `hpml.ranks.parent.warm.using(SlurmRanks(…))`, a `JobStep` takes
the place of a supervisor (`hpml.ranks.parent.job_step`). It starts srun with an agent for each
rank, and passes on what goes between the launch and the ranks. Nothing else is running anywhere:
srun ends with the step, and the agents with srun or with their connection.

Each connection proves on both sides that it knows a key of this launch
(`hpml.ranks.agent_connection`): others on the cluster can reach the port, too. What goes over it is
not encrypted, as messages between ranks are not; the key travels in srun's environment.
"""
