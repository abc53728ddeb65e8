# %%answer job_script
# unusual: short options, time as h:mm:ss, a list of lines, pathlib and textwrap
import textwrap
from pathlib import PurePosixPath


def job_script(name, nodes, tasks_per_node, cpus_per_task, minutes, parts, command):
    hours, rest = divmod(minutes, 60)
    log = PurePosixPath(".") / "%x-%A_%a.log"
    options = {
        "-J": name,
        "-N": nodes,
        "-c": cpus_per_task,
        "-t": f"{hours:d}:{rest:02d}:00",
        "-a": ",".join(map(str, range(parts))),
        "-o": log,
    }
    lines = [f"#SBATCH {option} {value}" for option, value in options.items()]
    body = textwrap.dedent(
        f"""
        #SBATCH --ntasks-per-node {tasks_per_node}

        set -euo pipefail
        srun {command}
        """
    )
    return "\n".join(["#!/usr/bin/env bash", *lines]) + body
