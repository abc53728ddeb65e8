"""How to go on, for each exercise of module 00: the hints after "start"."""

STEPS = {
    "hello_ranks": {
        "second": (
            "torch.tensor(number) makes a tensor of the number. all_reduce returns nothing: it "
            "writes the sum into that tensor, on every rank. What type has the tensor, and what "
            "type must come back?"
        ),
        "nearly": (
            "Three lines on every rank, with no if: the tensor, dist.all_reduce on it, and its "
            "item() returned."
        ),
    },
    "job_script": {
        "second": (
            "Which of the numbers are those of one task, which of one node, which of the whole "
            "job? And --array names the parts by their numbers: what is the last one, if the "
            "first is 0?"
        ),
        "nearly": (
            "--job-name={name}, and the log is %x-%A_%a.log: %x is the job's name, %A the "
            "array's job number, %a the part's number. The array is 0-{parts - 1}, the time "
            "{minutes}. The last line is srun {command}, so that every task runs it."
        ),
    },
    "read_queue": {
        "second": (
            "Which column says that a job waits, and how wide is the user's column in squeue? "
            "In sacct, which rows are steps of a job rather than a job?"
        ),
        "nearly": (
            "A step's id has a dot. Split squeue's line with split(None, 7), so that the reason "
            "stays whole. A time is D-HH:MM:SS or HH:MM:SS: days, _, clock = "
            "elapsed.rpartition('-'), where days may be ''. A job's node-hours are its nodes "
            "times its seconds over 3600."
        ),
    },
}
