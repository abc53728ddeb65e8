"""How to go on, for each exercise of module 03: the hints after "start"."""

STEPS = {
    "instrument": {
        "second": (
            "How does each rank know its own file's name? Which parts of the loop have names in "
            "the text, and at which place of the loop is one step over?"
        ),
        "nearly": (
            "profile takes schedule=schedule(wait, warmup, active, repeat=1), on_trace_ready, "
            "record_shapes and profile_memory. on_trace_ready gets the profiler, whose "
            "export_chrome_trace writes rank N's file. In the loop four times with "
            "record_function(name), and as its last line profiler.step()."
        ),
    },
    "fix_the_loader": {
        "second": (
            "Which work is the same in every epoch and can be done once, in __init__? Of the "
            "rest, what does one index with tensors take for a whole batch: which image, which "
            "32 rows, which 32 columns?"
        ),
        "nearly": (
            "Read all records with numpy, pad all images once. Per batch draw top, left and the "
            "coin as tensors of one number for each image; rows are top plus arange(32), "
            "columns left plus arange(32), flipped where the coin says so. Index the padded "
            "images with images, rows and columns broadcast against each other, and normalise "
            "the batch as a whole."
        ),
    },
    "step_breakdown": {
        "second": (
            "In one piece between two cuts, which marks are open, does a message travel, does "
            "an operator run? If marks are nested, which of them is right for the piece?"
        ),
        "nearly": (
            "Make a list of (time, +1 or -1, event), cut to the step, and sort it by time. Go "
            "through it with what is open now: each piece goes to the innermost open mark, or "
            "to communication if a message is open and no operator is, except while loading or "
            "transforming. Then take in the change. What no mark has is other. Milliseconds, so "
            "divide by 1000."
        ),
    },
    "find_the_straggler": {
        "second": (
            "What is a rank's own work in a phase: its length, less the time in which it does "
            "what? And for how many steps in a row, up to the last one, must one rank be late?"
        ),
        "nearly": (
            "Own work of a phase is its length without the moments when a gloo event is open "
            "and no cpu_op runs. A rank is late in a step if it has over 10 % more own work "
            "than every other rank. Count back from the last step while it is the same rank; "
            "under 3, None. The phases are those in which it has over 20 % more than the mean "
            "of the others."
        ),
    },
    "overlap": {
        "second": (
            "For one collective, which rank does not wait? Its event is the shortest of all "
            "ranks'. So which part of the other ranks' events is waiting, the first or the "
            "last?"
        ),
        "nearly": (
            "Transfer time of a collective: the shortest of its events over the ranks; data "
            "move in that long an end of each event. Make the intervals of communication and of "
            "work unions first. Hidden is what both have in common in the step; exposed is "
            "moving less work; waiting is communication less hidden less exposed. Seconds."
        ),
    },
}
