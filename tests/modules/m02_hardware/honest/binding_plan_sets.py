# %%answer binding_plan
# unusual: sets, tuples and generators; ranks of a domain in reverse; masks without 0x, in capitals
from collections import Counter, defaultdict


def binding_plan(cpus, ranks, gpus=(), reserved=()):
    core_of = {row["cpu"]: row["core"] for row in cpus}
    closed = {core_of[cpu] for cpu in reserved}
    one_of = {core: cpu for cpu, core in core_of.items() if core not in closed}
    place = {row["cpu"]: row for row in cpus}
    keys = [lambda row: row["numa"], lambda row: row["socket"], lambda row: "anywhere"]
    key = keys[0]
    if not gpus:
        key = next(k for k in keys if ranks % len(set(map(k, cpus))) == 0)
        names = sorted(set(map(key, cpus)))
        gpus = [name for name in names for _ in range(ranks // len(names))]
    cores = defaultdict(set)
    for cpu in one_of.values():
        cores[key(place[cpu])].add(cpu)
    many = Counter(gpus)
    size = min(len(cores[name]) // count for name, count in many.items())
    found = [tuple(sorted(cores[name].pop() for _ in range(size))) for name in reversed(gpus)]
    return found[::-1]


def srun_options(plan):
    def mask(cpus):
        bits = 0
        for cpu in cpus:
            bits |= 1 << cpu
        return f"{bits:X}"

    words = f"-l --mpi=none --ntasks-per-node={len(plan)} --kill-on-bad-exit=1"
    bind = "--cpu-bind=mask_cpu:" + ",".join(map(mask, plan))
    return [*words.split(), bind, f"--export=ALL,OMP_NUM_THREADS={len(plan[0])},OMP_PROC_BIND=true"]
