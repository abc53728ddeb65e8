"""How to go on, for each exercise of module 08: the hints after "start"."""

STEPS = {
    "fit_alpha_beta": {
        "second": (
            "Other work on a machine only adds time, so which repetition is nearest to the "
            "truth? Sizes go from 64 bytes to 1 GiB: if errors are counted in seconds and not "
            "in percent, which sizes decide alone? What if one size is off the line altogether?"
        ),
        "nearly": (
            "The minimum of each size. Least squares with each row, (1, bytes), divided by its "
            "seconds, so that each right side is 1; then again a number of times, with less "
            "weight for sizes far off the line. alpha is the constant over 2 (p - 1), beta the "
            "slope over 2 (p - 1)/p. half_size is where both terms of the ring are equal: p "
            "times alpha over beta."
        ),
    },
    "predict_scaling": {
        "second": (
            "When is a bucket's last gradient there, and from when on is the network free for "
            "it? Which of the two does it wait for? What ends a step: the last gradient, or the "
            "last bucket?"
        ),
        "nearly": (
            "beta is 8 over the rate. images_per_s: now = compute / 3, free = 0, bucket = 0. "
            "For each layer, last first: now grows by its part of backward, bucket by its "
            "bytes; when it is full, free = max(now, free) + its all-reduce, and it is empty "
            "again. After the loop likewise with a rest. A step is max(now, free) + wait * "
            "log2(ranks). share multiplies the rate across. fit: for each share the wait that "
            "meets the first point; without negative ones, the share that comes nearest to the "
            "second."
        ),
    },
    "find_the_knee": {
        "second": (
            "What do a node's unused ranks cost? Of several sizes on equally many nodes, which "
            "one counts? And what exactly is the yardstick: whose images/s, divided by what?"
        ),
        "nearly": (
            "bill: images / rate / 3600 hours; nodes are rounded up, money is nodes times hours "
            "times the price, to cents. cheapest: the minimum of (money, hours, ranks) over all "
            "in time, else None. Knee: a dict from nodes to the fastest (rate, ranks); in the "
            "order of nodes, go on while the images/s added per node added are at least worth "
            "times the first entry's images/s per node. Return the ranks where you stop."
        ),
    },
    "choose_layout": {
        "second": (
            "Which of the four kinds of bytes is divided by data at stage 1, 2 and 3? How many "
            "micro-batches' activations are alive at once? How many of a group's ranks are on one "
            "node, if they are s apart?"
        ),
        "nearly": (
            "nbytes: 2n, 2n and 12n, of which the stage divides some by data, and the "
            "activations of min(m, p) micro-batches. seconds: m + p - 1 slots, each compute, "
            "eight halves of an all-reduce for each layer, and with p > 1 the sends. Then what "
            "travels: never below 0, less a third or two thirds of a slot's compute, each time it "
            "hides; stage 3 is m times both passes. choose: of all legal layouts that fit, the one "
            "with the least seconds."
        ),
    },
}
