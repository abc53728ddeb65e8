"""How to go on, for each exercise of module 04: the hints after "start"."""

STEPS = {
    "autodiff": {
        "second": (
            "When may a node pass its gradient on: when its first user has been there, or its "
            "last? How do you know that it was the last? And which shape must a gradient have "
            "if NumPy has repeated the value in broadcasting?"
        ),
        "nearly": (
            "matmul: g @ b.T and a.T @ g. relu: g * (a > 0). backward: with a list as a stack, "
            "count the uses of each node that requires a gradient, from the loss on. Begin with "
            "a gradient of 1, add up what comes with +, which makes a new array, and let a node "
            "go on when its count is 0. Before that, sum a gradient over the axes that "
            "broadcasting added in front, and with keepdims over those where the value has "
            "length 1."
        ),
    },
    "gradient_hooks": {
        "second": (
            "In which order do gradients become ready on one rank, and is that the same on "
            "another? all_reduce pairs calls by their order. What should a hook do if its "
            "parameter's turn has not come yet?"
        ),
        "nearly": (
            "The order: parameters() reversed, without frozen ones. A hook notes its parameter "
            "as ready; then, while the next in the order is ready, it starts all_reduce on that "
            "one's .grad with async_op=True and keeps (gradient, work). finish waits for each "
            "work, divides the gradient by the world size, and clears what is ready and what is "
            "kept, for the next step."
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
            "plan: follow views to their base, and drop nodes that no output needs. Take the "
            "others from the last to the first: bases of inputs that you meet for the first "
            "time are freed just after that node, those of given tensors and outputs never. "
            "Reverse the steps. order: for each branch, its peak, what it leaves, its names. Of "
            "a node's inputs, the one with the largest peak minus what it leaves runs first. "
            "Each input reaches its peak on top of what those before it left; at last the "
            "node's own bytes come on top of all."
        ),
    },
    "tf_input_pipeline": {
        "second": (
            "Which stages take a number of parallel calls? How large must a shuffle buffer be "
            "so that any sample can come at any place? What of decoding and augmenting is "
            "different in each epoch?"
        ),
        "nearly": (
            "from_tensor_slices(files), interleave(tf.data.TFRecordDataset), map of a function "
            "that parses, decodes and reshapes to (8, 8, 3), cache, shuffle(samples, "
            "seed=seed), map of augment on the image alone, batch, prefetch. interleave and "
            "both maps with num_parallel_calls=tf.data.AUTOTUNE, prefetch(tf.data.AUTOTUNE)."
        ),
    },
}
