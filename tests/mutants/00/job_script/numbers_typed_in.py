# wrong: the numbers of the one job that was looked at
# hint: number
# claim: it asks for nodes, tasks on each, and cores for each
def job_script(name, nodes, tasks_per_node, cpus_per_task, minutes, parts, command):
    return f"""\
#!/bin/bash
#SBATCH --job-name={name}
#SBATCH --nodes=1
#SBATCH --ntasks-per-node=1
#SBATCH --cpus-per-task=1
#SBATCH --time={minutes}
#SBATCH --array=0-{parts - 1}
#SBATCH --output={name}-%A_%a.log
srun {command}
"""
