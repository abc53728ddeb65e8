"""How to go on, for each exercise of module 03: the hints after "start"."""

STEPS = {
    "instrument": {
        "second": (
            "In what must the files' names differ, so that no rank writes over another's? A "
            "window is over after the last recorded step: which argument of profile is a "
            "function to be called then? And at which place of the loop is one step over?"
        ),
        "nearly": (
            "profile takes schedule=schedule(wait=wait, warmup=warmup, active=active, "
            "repeat=1), on_trace_ready, record_shapes=True and profile_memory=True. "
            "on_trace_ready gets the profiler, whose export_chrome_trace(path) writes rank N's "
            "file. In the loop four times with record_function(name), and as its last line "
            "profiler.step()."
        ),
    },
    "fix_the_loader": {
        "second": (
            "Which work is the same in every epoch and can be done once, in __init__? Of the "
            "rest, what does one index with tensors take for a whole batch: which image, which "
            "32 rows, which 32 columns?"
        ),
        "nearly": (
            "Read all records once with np.fromfile, and pad all images once, as uint8. Per "
            "batch draw top, left and the coin as tensors of shape (B, 1); rows are top + "
            "torch.arange(32), columns left + torch.arange(32), flipped where the coin says so. "
            "padded[chosen[:, None, None], :, rows[:, :, None], columns[:, None, :]] takes all "
            "crops at once, with the colours last: permute(0, 3, 1, 2) brings them to the "
            "front. Then float32, and normalise the batch as a whole."
        ),
    },
    "step_breakdown": {
        "second": (
            "In one piece between two cuts, which marks are open, does a message travel, does "
            "an operator run? If marks are nested, which of them is right for the piece?"
        ),
        "nearly": (
            "Of each event with ph X in the step make (begin, +1, event) and (end, -1, event), "
            "cut to the step, and sort by time alone. Keep what is open: marks on the step's "
            "own thread, messages, operators. Before each change, the piece since the change "
            "before goes to communication if a message is open and no operator is, unless the "
            "innermost mark is loading or transforms; else to the innermost mark; without one, "
            "to other. So does what is left at the step's end. Milliseconds: divide by 1000."
        ),
    },
    "find_the_straggler": {
        "second": (
            "Collectives may overlap, and operators lie within others. What goes wrong if you add "
            "up their durations, and what do you need of them instead? Which part of a mark's "
            "time is not own work?"
        ),
        "nearly": (
            "Merge a rank's `gloo:` and `nccl:` events into intervals that do not overlap, and "
            "its `aten::` events likewise. Own work of a mark: its length, less its time in the "
            "first, plus its time in both at once. In each step add up the phases: late is the "
            "rank with the most, if that is over 1.1 times the second most. Count back from the "
            "last step while it is the same rank; under 3, None. Its phases are those with over "
            "1.2 times the others' mean, summed over these steps."
        ),
    },
    "overlap": {
        "second": (
            "For one collective, which rank does not wait? Its event is the shortest of all "
            "ranks'. So which part of the other ranks' events is waiting, the first or the "
            "last?"
        ),
        "nearly": (
            "Sort each rank's `gloo:` and `nccl:` events by their begin: the k-th of all ranks "
            "belong together. In each of them data move at its end, for as long as the shortest "
            "of them takes. Merge a rank's communication, its `aten::` events and its moving data "
            "into intervals that do not overlap. In each step: hidden is what communication and "
            "operators have in common; exposed is moving data, less what they have in common "
            "with operators; waiting is the rest. Divide by 1e6."
        ),
    },
}
