"""Exercise process_group's hints."""

HINTS = {
    "start": "Read the environment in one place, and in this order: has torchrun started me, has "
    "srun, or nobody? Print what a launcher really sets: `srun env | grep SLURM | sort`.",
    "passed_on": "`start` returns what `settings` finds in os.environ, all of it and unchanged.",
    "given": "`settings` is asked about the environment in its argument. What os.environ says of "
    "this process is for `start` to pass on.",
    "keys": "Both functions return one dict with the eight keys that the docstring lists.",
    "types": "Environment variables are text. Convert what counts or numbers something with int(); "
    "addresses and devices stay str.",
    "torchrun": "torchrun sets a variable for each key: RANK in the world, WORLD_SIZE, LOCAL_RANK, "
    "LOCAL_WORLD_SIZE, MASTER_ADDR and MASTER_PORT. GROUP_RANK is the number of the node; where "
    "it is absent, the node is 0.",
    "local_rank": "The local rank starts from 0 on every node: with two nodes there are two local "
    "ranks 0, and both would take themselves for the one that writes. It picks the GPU. The rank "
    "in the world is another variable.",
    "launcher": "Under `srun torchrun`, SLURM counts one task per node and torchrun starts several "
    "ranks in it. Both sets of variables are there: the innermost launcher knows the ranks.",
    "srun": "SLURM numbers tasks in the step (SLURM_PROCID), on the node (SLURM_LOCALID) and nodes "
    "in the step (SLURM_NODEID). A MASTER_ADDR alone does not mean torchrun.",
    "tasks_per_node": "SLURM_STEP_TASKS_PER_NODE has one number per node, in run-length form: "
    "'2(x2),1' is 2, 2, 1. Nodes need not have equal shares, and SLURM_NTASKS_PER_NODE is what was "
    "asked for, not what was given.",
    "distribution": "Ranks need not fill one node after the other: under --distribution=cyclic, "
    "rank 1 is on the second node. Do not compute the node or the local rank from the rank; SLURM "
    "says both.",
    "host_list": "A node list is compressed: names are separated by commas outside brackets, and "
    "inside a bracket are numbers and ranges. The master is one host: the first name, with the "
    "first number in place of each of its brackets. In a cluster's shell, `scontrol show hostnames "
    "LIST` prints all of them.",
    "own_node": "That is the node on which this rank runs, and ranks on other nodes name another. "
    "All must look in one place: on the first host of the step, wherever they run themselves.",
    "zero_padding": "n[08-10] begins with n08. As an int, 08 is 8, and there is no host n8: keep "
    "the number as text.",
    "step": "A step can run on some of the job's nodes only. Rank 0 is on the first node of the "
    "step, and the job's list may begin with a node where nobody listens.",
    "exported": "A job script that exports MASTER_ADDR or MASTER_PORT has its reason, such as "
    "another network. What is set wins over what would be derived.",
    "port": "Two jobs can share a node. If both come to one port, the second cannot start, or "
    "worse, joins the first. The job id is known to all ranks of a job and to no other job. How "
    "many ports do you make of it? Jobs less than 1000 apart must have different ones.",
    "port_range": "Job ids grow to 8 digits, ports end at 65535. Below 1024 they are root's, above "
    "32767 Linux lends them to outgoing connections. Fold the id into what is left.",
    "port_agreed": "All ranks of a job must come to the same port without having met: derive it "
    "from what they all know. A random or free port is known to one rank only. (hash() of a str "
    "also differs between processes.)",
    "device": "A process numbers the GPUs that it can see from 0, on every node anew: the rank in "
    "the world does not count here. With --gpus-per-task=1 each sees one, and it is cuda:0 "
    "whatever the local rank. Ranks that are more than their GPUs share them. Without a GPU the "
    "device is the CPU.",
    "alone": "Without a launcher there is one process: rank 0 of 1, master 'localhost', port 0, "
    "which lets the kernel choose.",
    "batch": "A batch script has SLURM variables too, with SLURM_NTASKS for the steps to come, but "
    "it is one process. Only a task that srun started has SLURM_STEP_ID. What it has exported for "
    "srun does not concern it: its master is 'localhost', and its port 0.",
    "group": "What does `start` pass to init_process_group, and what does it return? All ranks "
    "must give the same address, the same port and the same world size, and each its own rank in "
    "the world: what `settings` finds in os.environ.",
    "raised": "Start from the exception. A variable is missing, or env:// expects one: srun sets "
    "no RANK and no WORLD_SIZE, not even where MASTER_ADDR is set, and init_process_group can be "
    "given rank and world_size instead. An address is in use: two processes take themselves for "
    "rank 0. Which number has each passed on as its rank?",
    "hang": "Every rank calls init_process_group, which returns when all have: the others wait "
    "without end for one that never comes. Which way does that one take through `start`?",
}
