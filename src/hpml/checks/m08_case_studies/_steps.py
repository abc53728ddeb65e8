"""How to go on, for each exercise of module 08: the hints after "start"."""

STEPS = {
    "fit_alpha_beta": {
        "second": (
            "Other work on a machine only adds time, so which repetition is nearest to the "
            "truth? Sizes go from bytes to megabytes: if errors are not relative, which sizes "
            "decide alone? What if one size is off the line altogether?"
        ),
        "nearly": (
            "The minimum of each size; least squares with rows divided by the seconds; then "
            "again a number of times, with less weight for sizes far off the line. alpha is the "
            "constant over 2 (p - 1), beta the slope over 2 (p - 1)/p. half_size is where both "
            "terms of the ring are equal: p times alpha over beta."
        ),
    },
    "predict_scaling": {
        "second": (
            "When is a bucket's last gradient there, and from when on is the network free for "
            "it? Which of the two does it wait for? What ends a step: the last gradient, or the "
            "last bucket?"
        ),
        "nearly": (
            "all_reduce: 2 (p - 1) alpha, and 2 (p - 1)/p times nbytes times 8 over the rate in "
            "bit/s. Forward is a third of the time, backward two thirds, split by flop, last "
            "layer first. A full bucket leaves at the later of now and free. The step is the "
            "later of both at the end, plus wait times log2 p. fit: try shares of 1 to 100 %, "
            "take the wait that meets the first point, keep the share that misses the second "
            "least."
        ),
    },
    "find_the_knee": {
        "second": (
            "What do a node's unused ranks cost? With several sizes on equally many nodes, "
            "which one is worth drawing? The worth is a share of what: of the last point's "
            "rate, or of the smallest one's?"
        ),
        "nearly": (
            "bill: images over rate over 3600; nodes rounded up, times hours, times the price, "
            "rounded to cents. cheapest: the minimum of (money, hours, ranks) over all in time, "
            "else None. Knee: by nodes the fastest size; from the smallest on, go further while "
            "images/s added per node added is at least worth times the smallest size's images/s "
            "per node."
        ),
    },
    "choose_layout": {
        "second": (
            "Which of the four kinds of bytes is divided by data at stage 1, 2 and 3? How many "
            "micro-batches' activations are alive at once? A group of ranks is inside a node if "
            "what divides what?"
        ),
        "nearly": (
            "nbytes: 2, 2 and 12 bytes a parameter of this rank's, and the activations of "
            "min(micro_batches, pipeline) micro-batches. seconds: micro_batches plus pipeline - "
            "1 slots of compute and tensor sums, plus sends; then what of the gradients is not "
            "hidden by two thirds of compute, and at stage 3 the parameters. choose: every "
            "legal layout, those that fit, the least seconds."
        ),
    },
}
