# wrong: a range without its end, as in Python
# hint: array
# claim: it is an array, and each part has a log of its own
def job_script(name, nodes, tasks_per_node, cpus_per_task, minutes, parts, command):
    return f"""\
#!/bin/bash
#SBATCH --job-name={name}
#SBATCH --nodes={nodes}
#SBATCH --ntasks-per-node={tasks_per_node}
#SBATCH --cpus-per-task={cpus_per_task}
#SBATCH --time={minutes}
#SBATCH --array=0-{parts}
#SBATCH --output={name}-%A_%a.log
srun {command}
"""
