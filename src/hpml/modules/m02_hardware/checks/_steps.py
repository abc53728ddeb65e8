"""How to go on, for each exercise of module 02: the hints after "start"."""

STEPS = {
    "roofline": {
        "second": (
            "Bytes: each tensor once, read or written, times the bytes of one element. For "
            "conv2d, how many places does the kernel have along one length, with padding on "
            "both sides? For the roof: how many seconds would the unit take alone, and each "
            "level of memory alone?"
        ),
        "nearly": (
            "matmul: 2 * m * k * n FLOP, and m * k + k * n + m * n elements. conv2d: along a "
            "length, (length + 2 * padding - kernel) // stride + 1 places. Each output number "
            "takes 2 * seen FLOP, with seen = channels // groups * prod(kernel); the weight has "
            "out_channels * seen elements. roofline: flops / machine[unit], and bytes / "
            "machine[level] for each level: the largest is the time and names the roof. flops / "
            "traffic['memory'] is the intensity, flops over the time the rate."
        ),
    },
    "prefetch": {
        "second": (
            "A put into a full queue waits. Who frees the reader if the caller leaves the loop "
            "early? And how does an error in the reader's thread get to the caller?"
        ),
        "nearly": (
            "queue.Queue(depth). The reader puts pairs: ('batch', batch), at last ('end', "
            "None), or ('error', error) with what it caught. Your generator yields, returns or "
            "raises accordingly. Around its loop stands try, and in finally: set an Event, "
            "empty the queue so that a put that waits can end, and join the reader. The reader "
            "looks at the Event after each put, and returns if it is set. So depth batches "
            "wait, and the reader holds one more."
        ),
    },
    "memory_budget": {
        "second": (
            "Which parameters have gradients, and how many states does each optimizer keep of "
            "them? What does a layer need again in its backward: its input, its output, or "
            "neither? From which layer on does anything need a backward at all?"
        ),
        "nearly": (
            "Bytes are numel() times element_size(), summed. Send torch.empty(shape, "
            "device='meta'), of the parameters' dtype, through the layers one by one. On meta "
            "all addresses are 0, so number the memories yourself: each output has a new "
            "number, but Flatten's and an in-place ReLU's has its input's. From the first "
            "trained layer on, note in a dict what each layer keeps, by that number, and "
            "MaxPool2d's int64s beside it. Largest batch: memory less the three other kinds, at "
            "least 0, // the activations of one sample."
        ),
    },
    "pack_files": {
        "second": (
            "The start of a sample is the sum of the sizes before it. So what has to be in the "
            "index, and how does the reader know how long the index is? What becomes of an open "
            "file when a Dataset is sent to a worker?"
        ),
        "nearly": (
            "MARK, 8 bytes with the index's length (struct.pack), the index as JSON, the "
            "samples in the order of their names. Write it beside the target, and os.replace it "
            "at the end. In __init__ check the mark, and that the file's size is the last "
            "sample's end. __getitem__ is one os.pread, which moves no position. __reduce__ "
            "returns (Packed, (self.path,)): each worker opens its own file."
        ),
    },
    "fusion_buffer": {
        "second": (
            "When a gradient does not fit into the buffer that is being filled, what leaves "
            "first? Where does a gradient that is larger than a whole buffer go? And what of "
            "the last buffer, which nothing fills up?"
        ),
        "nearly": (
            "A dict from dtype to the gradients that wait. Skip an empty one. One with nbytes "
            "above buffer_bytes is sent alone, and what waits goes on waiting. Else, if what "
            "waits and this one are more than buffer_bytes, send what waits first; then this "
            "one waits. After the loop send what is left. To send: torch.cat of the flat "
            "gradients, all_reduce with async_op=True. At the very end wait for each, divide by "
            "the ranks, split by numel, and gradient.copy_(part.view_as(gradient))."
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
            "<< cpu, in hex. Options: --ntasks-per-node=N, --cpu-bind=mask_cpu:M0,M1,... and "
            "--export=ALL,OMP_NUM_THREADS=T, with T the cores of a rank."
        ),
    },
    "mixed_precision": {
        "second": (
            "A step takes 0.0005 from a weight of 0.3. Of which dtype must the weight be so "
            "that this counts? In which order come unscaling, the norm, clipping and the "
            "update? When a gradient is not finite, what changes and what does not?"
        ),
        "nearly": (
            "Each product is (a.bfloat16() @ b.bfloat16()).float(). Trainer: weights with "
            "requires_grad_(), torch.autograd.grad of the loss, and under no_grad weight -= "
            "learning_rate * gradient. LossScale.step: if any gradient is not finite, halve the "
            "scale, set the count to 0, return False. Else gradient.float() / scale, one norm "
            "over all, times min(1, max_norm / norm), update, count; after growth_interval good "
            "steps in a row double the scale, and count from 0."
        ),
    },
}
