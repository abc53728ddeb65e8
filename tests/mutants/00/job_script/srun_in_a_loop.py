# wrong: an srun for each task, each of which starts all of them
# hint: once
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
for i in $(seq $SLURM_NTASKS); do srun {command}; done
"""
