# wrong: minutes where hours belong
# hint: time
# claim: a part may take so many minutes
def job_script(name, nodes, tasks_per_node, cpus_per_task, minutes, parts, command):
    return f"""\
#!/bin/bash
#SBATCH --job-name={name}
#SBATCH --nodes={nodes}
#SBATCH --ntasks-per-node={tasks_per_node}
#SBATCH --cpus-per-task={cpus_per_task}
#SBATCH --time={minutes}:00:00
#SBATCH --array=0-{parts - 1}
#SBATCH --output={name}-%A_%a.log
srun {command}
"""
