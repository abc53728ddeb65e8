# %%answer binding_plan
# unusual: numpy arrays and integers, the last hardware thread of each core, -n and -c written out
import numpy as np


def binding_plan(cpus, ranks, gpus=(), reserved=()):
    table = np.array([[row["cpu"], row["core"], row["socket"], row["numa"]] for row in cpus])
    busy = np.unique(table[np.isin(table[:, 0], list(reserved)), 1])
    table = table[~np.isin(table[:, 1], busy)]
    table = table[::-1][np.unique(table[::-1, 1], return_index=True)[1]]
    if len(gpus):
        groups = [(3, node, np.flatnonzero(np.array(gpus) == node)) for node in set(gpus)]
    else:
        for column in (3, 2, None):
            names = np.unique(table[:, column]) if column else np.zeros(1)
            if ranks % len(names) == 0:
                break
        parts = np.split(np.arange(ranks), len(names))
        groups = [(column, name, part) for name, part in zip(names, parts, strict=True)]
    pieces = {}
    for column, name, members in groups:
        mine = table[table[:, column] == name, 0] if column else table[:, 0]
        for k, rank in enumerate(members):
            pieces[int(rank)] = mine[k :: len(members)]
    size = min(map(len, pieces.values()))
    return np.stack([pieces[rank][:size] for rank in range(ranks)])


def srun_options(plan):
    masks = ["%#x" % sum(2**cpu for cpu in cpus) for cpus in plan]
    threads = {len(cpus) for cpus in plan}
    return [
        "--ntasks-per-node",
        str(len(plan)),
        "--cpu-bind=verbose,mask_cpu:" + ",".join(masks),
        "--export",
        f"OMP_NUM_THREADS={max(threads)},ALL",
    ]
