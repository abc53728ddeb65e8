# wrong: counts what a running job has used so far
# hint: running
# claim: node_hours is what my ended jobs have used
def read_queue(squeue: str, sacct: str, user: str) -> dict:
    waiting = {}
    for line in squeue.splitlines()[1:]:
        fields = line.split(None, 7)
        if fields[3] == user[:8] and fields[4] == "PD":
            waiting[fields[0]] = fields[7][1:-1]

    node_seconds, failed = 0, []
    for line in sacct.splitlines()[1:]:
        job, _, state, _, nodes, elapsed = line.split("|")
        if "." in job or state in ("PENDING",):
            continue
        days, _, clock = elapsed.rpartition("-")
        hours, minutes, seconds = (int(part) for part in clock.split(":"))
        hours += 24 * int(days or 0)
        node_seconds += int(nodes) * (3600 * hours + 60 * minutes + seconds)
        if "_" in job and state in ("FAILED", "TIMEOUT", "OUT_OF_MEMORY", "NODE_FAIL"):
            failed.append(job)
    return {"waiting": waiting, "node_hours": node_seconds / 3600, "failed": failed}
