"""How to go on, for each exercise of module 02: the hints after "start"."""

STEPS = {
    "roofline": {
        "second": (
            "Bytes: each tensor once, read or written, times the bytes of one element. For "
            "conv2d, how many places does the kernel have along one length, with padding on "
            "both sides? For the roof: each level and the unit would take how many seconds "
            "alone?"
        ),
        "nearly": (
            "matmul: 2 m k n operations, and m k + k n + m n elements. conv2d: places along a "
            "length are (length + 2 padding - kernel) // stride + 1; each output number takes 2 "
            "times channels / groups times the kernel's numbers. roofline: the largest of the "
            "seconds names the roof, and flops over these seconds is the rate."
        ),
    },
    "prefetch": {
        "second": (
            "A bounded queue waits on a put. Who frees the reader if the consumer leaves the "
            "loop early? And how does an error in the reader's thread get to the consumer?"
        ),
        "nearly": (
            "The reader puts pairs: a batch, the end, or the error that it caught; the consumer "
            "returns or raises accordingly. Around the consumer's loop stands try and finally: "
            "set an Event that the reader looks at, make room so that it does not wait any "
            "longer, and join it. Count who holds a batch: the reader may be at most depth "
            "batches ahead."
        ),
    },
    "memory_budget": {
        "second": (
            "Which parameters have gradients, and how many states does each optimizer keep of "
            "them? What does a layer need again in its backward: its input, its output, or "
            "neither? From which layer on does anything need a backward at all?"
        ),
        "nearly": (
            "One function: numel times element_size, summed. Run the layers on the meta device, "
            "and note what each keeps, by the memory that it lies in, so that nothing counts "
            "twice. The largest batch is what is left of the memory after the three other "
            "kinds, divided by the activations of one sample and rounded down, and never below "
            "0."
        ),
    },
    "pack_files": {
        "second": (
            "The start of a sample is the sum of the sizes before it. So what has to be in the "
            "index, and how does the reader know how long the index is? What becomes of an open "
            "file when a Dataset is sent to a worker?"
        ),
        "nearly": (
            "Mark, 8 bytes with the index's length, the index, the samples in the order of "
            "their names. Write it beside the target and rename it at the end. Read with "
            "os.pread, which moves no position. Check mark and size in __init__. Pickled, it is "
            "its class and its path."
        ),
    },
    "fusion_buffer": {
        "second": (
            "When a gradient does not fit into the buffer that is being filled, what leaves "
            "first? Where does a gradient that is larger than a whole buffer go? And what of "
            "the last buffer, which nothing fills up?"
        ),
        "nearly": (
            "A dict from dtype to the gradients that wait. Send when bytes held plus this one "
            "are more than buffer_bytes; a larger gradient goes alone; after the loop send what "
            "is left. Start each all_reduce with async_op, wait for all at the end, divide by "
            "the ranks, split by numel, and copy_ each part into its gradient."
        ),
    },
    "binding_plan": {
        "second": (
            "Which cores are left once every core with a reserved CPU is out, and which of a "
            "core's CPUs do you take? At which level, NUMA domain, socket or node, do the ranks "
            "divide evenly?"
        ),
        "nearly": (
            "Give each rank a home first: its GPU's NUMA domain, else the first level whose "
            "number of places divides the ranks. In each home the ranks share the cores evenly, "
            "in order; all ranks get as many as the smallest share has. A mask is the sum of 1 "
            "<< cpu, in hex. Options: tasks per node, mask_cpu, OMP_NUM_THREADS."
        ),
    },
    "mixed_precision": {
        "second": (
            "Which weights does an update that is too small for bfloat16 have to reach? In "
            "which order come unscaling, the norm, clipping and the update? When a gradient is "
            "not finite, what changes and what does not?"
        ),
        "nearly": (
            "Keep the weights in float32 and cast in the product alone. LossScale.step: if any "
            "gradient is not finite, halve the scale, set the count to 0, return False. Else "
            "divide by the scale in float32, take one norm over all, multiply by min(1, "
            "max_norm / norm), update, count; after growth_interval good steps in a row double "
            "the scale."
        ),
    },
}
