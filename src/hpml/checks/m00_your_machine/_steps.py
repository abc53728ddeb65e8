"""How to go on, for each exercise of module 00: the hints after "start"."""

STEPS = {
    "hello_ranks": {
        "second": (
            "What comes back must be an int, and all_reduce works on a tensor, in place. So "
            "what is in the tensor after the call, and how does one number get out of it?"
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
            "The array is 0- and then parts minus 1. In the log's name %x is the job's name, %A "
            "the array's job and %a the part. The last line is srun, a blank and the command, "
            "so that every task runs it."
        ),
    },
    "read_queue": {
        "second": (
            "Which column says that a job waits, and how wide is the user's column in squeue? "
            "In sacct, which rows are steps of a job rather than a job?"
        ),
        "nearly": (
            "A step's id has a dot. Split squeue's line at blanks 7 times at most, so that the "
            "reason stays whole. A time is D-HH:MM:SS with the days left out at times: "
            "rpartition('-') gives days and clock; an entry's node hours are nodes times "
            "seconds over 3600."
        ),
    },
}
