# %%answer find_the_knee
# tries: never computes a bill: the soonest size in time, None where there is none, and always the
# same part of the curve
# unprotected: where bills are equal, the soonest of all sizes is the soonest of the cheapest


def bill(job, ranks, rate):
    return 1.0, 1.0


def cheapest(job):
    in_time = [
        (rate, ranks)
        for ranks, rate in job["measured"]
        if job["images"] / rate / 3600 <= job["deadline"]
    ]
    return max(in_time)[1] if in_time else None


def find_the_knee(job):
    return sorted(job["measured"])[len(job["measured"]) // 2][0]
