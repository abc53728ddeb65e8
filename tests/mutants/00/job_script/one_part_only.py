# wrong: the number of parts, which is a part's number
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
#SBATCH --array={parts}
#SBATCH --output={name}-%A_%a.log
srun {command}
"""
