# %%answer binding_plan
# tries: calls what the plays themselves are made with, found in the course's files
# unprotected: the functions that know what is right are there to be called
# on: from_file
check = of_the_course("modules", "m02_hardware", "checks", "instructors", "binding_plan.py")


def binding_plan(cpus, ranks, gpus=(), reserved=()):
    asked = {"cpus": cpus, "ranks": ranks, "gpus": gpus, "reserved": reserved}
    most, rows = check.most_cores(asked), list(check.free_cores(asked).values())
    plan = []
    for level, name in check.domains(asked):
        mine = [row for row in rows if row.get(level, 0) == name][:most]
        rows = [row for row in rows if row not in mine]
        plan.append([row["cpu"] for row in mine])
    return plan


def srun_options(plan):
    masks = ",".join(hex(sum(1 << cpu for cpu in cpus)) for cpus in plan)
    return [f"--ntasks-per-node={len(plan)}", f"--cpu-bind=mask_cpu:{masks}"]
