# wrong: a line that fails after the command
# hint: failed
# claim: submitted, each task of each part runs the command once
# needs: slurm
def job_script(name, nodes, tasks_per_node, cpus_per_task, minutes, parts, command):
    return f"""\
#!/bin/bash
#SBATCH --job-name={name}
#SBATCH --nodes={nodes}
#SBATCH --ntasks-per-node={tasks_per_node}
#SBATCH --cpus-per-task={cpus_per_task}
#SBATCH --time={minutes}
#SBATCH --array=0-{parts - 1}
#SBATCH --output={name}-%A_%a.log
srun {command}
module load python/3.11 || exit 1
"""
