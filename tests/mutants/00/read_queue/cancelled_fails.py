# wrong: whoever cancelled it does not want it again
# hint: failures
# claim: failed has the parts of arrays that have to run again
def read_queue(squeue: str, sacct: str, user: str) -> dict:
    waiting = {}
    for line in squeue.splitlines()[1:]:
        fields = line.split(None, 7)
        if fields[3] == user[:8] and fields[4] == "PD":
            waiting[fields[0]] = fields[7][1:-1]

    node_seconds, failed = 0, []
    for line in sacct.splitlines()[1:]:
        job, _, state, _, nodes, elapsed = line.split("|")
        if "." in job or state in ("RUNNING", "PENDING"):
            continue
        days, _, clock = elapsed.rpartition("-")
        hours, minutes, seconds = (int(part) for part in clock.split(":"))
        hours += 24 * int(days or 0)
        node_seconds += int(nodes) * (3600 * hours + 60 * minutes + seconds)
        if "_" in job and state != "COMPLETED":
            failed.append(job)
    return {"waiting": waiting, "node_hours": node_seconds / 3600, "failed": failed}
