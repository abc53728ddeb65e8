"""How to go on, for each exercise of module 04: the hints after "start"."""

STEPS = {
    "autodiff": {
        "second": (
            "When may a node pass its gradient on: when its first user has been there, or its "
            "last? How do you know that it was the last? And which shape must a gradient have "
            "if NumPy has repeated the value in broadcasting?"
        ),
        "nearly": (
            "matmul: g times b transposed, and a transposed times g. relu: g where a is above "
            "0. backward: count the uses of each node first, begin with a gradient of 1, add up "
            "what comes, and let a node go on when its count is 0. A gradient is summed over "
            "the axes that broadcasting added, and over those of length 1."
        ),
    },
    "gradient_hooks": {
        "second": (
            "In which order do gradients become ready on one rank, and is that the same on "
            "another? all_reduce pairs calls by their order. What should a hook do whose turn "
            "it is not yet?"
        ),
        "nearly": (
            "The order: parameters() reversed, without frozen ones. A hook notes its parameter "
            "as ready; then, while the next in the order is ready, it starts all_reduce on that "
            "one's .grad with async_op=True and keeps (gradient, work). finish waits for each, "
            "divides by the world size, and clears both lists for the next step."
        ),
    },
    "optimizers": {
        "second": (
            "Which tensor does the weight decay of SGD and Adam go into, the gradient or the "
            "weight? And AdamW's? Whose count t do the bias corrections take, if a parameter "
            "had no gradient in some step?"
        ),
        "nearly": (
            "NesterovSGD: d is the gradient plus decay times p; buffer is momentum times buffer "
            "plus d; p loses lr times (d plus momentum times buffer). Adam: both means divided "
            "by 1 - beta**t, the root taken before eps is added. AdamW: p times (1 - lr times "
            "decay) first, then Adam's step with the plain gradient. Skip where grad is None."
        ),
    },
    "static_graph": {
        "second": (
            "A view has no memory of its own: whose memory is it, if views are made of views? "
            "Which tensors may never be freed? For two branches with their peaks and what they "
            "leave behind, which difference decides?"
        ),
        "nearly": (
            "plan: follow views to their base, drop nodes that no output needs, and collect the "
            "steps from the end: a base that is met for the first time is freed just after that "
            "node; reverse at last. order: a branch has a peak and what it leaves; run first "
            "the one with the largest peak minus what it leaves."
        ),
    },
    "tf_input_pipeline": {
        "second": (
            "Which stages take a number of parallel calls? How large must a shuffle buffer be "
            "so that any sample can come at any place? What of decoding and augmenting is "
            "different in each epoch?"
        ),
        "nearly": (
            "from_tensor_slices of the files, interleave with TFRecordDataset, map decode, "
            "cache, shuffle(samples, seed), map augment of the image alone, batch, prefetch. "
            "interleave and both maps with tf.data.AUTOTUNE calls in parallel, prefetch with "
            "AUTOTUNE too."
        ),
    },
}
