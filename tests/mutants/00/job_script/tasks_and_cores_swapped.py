# wrong: a process for each thread
# hint: swapped
# claim: it asks for nodes, tasks on each, and cores for each
def job_script(name, nodes, tasks_per_node, cpus_per_task, minutes, parts, command):
    return f"""\
#!/bin/bash
#SBATCH --job-name={name}
#SBATCH --nodes={nodes}
#SBATCH --ntasks-per-node={cpus_per_task}
#SBATCH --cpus-per-task={tasks_per_node}
#SBATCH --time={minutes}
#SBATCH --array=0-{parts - 1}
#SBATCH --output={name}-%A_%a.log
srun {command}
"""
