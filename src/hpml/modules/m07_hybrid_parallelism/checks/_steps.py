"""How to go on, for each exercise of module 07: the hints after "start"."""

STEPS = {
    "split_layers": {
        "second": (
            "What arrives at rank 1 is a new tensor, without a history. What must it have so "
            "that backward leaves a gradient on it? And which call of backward takes a gradient "
            "that comes from elsewhere?"
        ),
        "nearly": (
            "Not the first rank: receive into torch.empty(shape, dtype=torch.float64), then "
            "requires_grad_(). Not the last: send output.detach(), receive a gradient of the "
            "output's shape, output.backward(gradient). The last: loss.backward(). Not the "
            "first, at the end: send x.grad to the rank before. The loss is returned on the "
            "last rank alone."
        ),
    },
    "tensor_parallel": {
        "second": (
            "Which sum over the ranks is missing at the end of forward, and which at the end of "
            "backward? Each is one all_reduce. Which biases belong to a share, and which must "
            "be added once?"
        ),
        "nearly": (
            "SumInBackward.backward: all_reduce the gradient, contiguous, and return it. "
            "SumInForward.forward: all_reduce a clone of the part, and return that; its "
            "backward returns the gradient. A layer applies the first to x, and the second to "
            "its part; then it adds the whole bias. Read up and its bias from start to stop "
            "along 0, down along 1. Attention: my_share(heads), times the width of a head; "
            "query, key, value along 0, out along 1."
        ),
    },
    "gpipe": {
        "second": (
            "What must each micro-batch keep until its backward? If micro-batches differ in "
            "size, with which weight does the mean loss of each count in that of the whole "
            "batch?"
        ),
        "nearly": (
            "First loop over all micro-batches: receive into torch.empty(shape, "
            "dtype=torch.float64), requires_grad_, stage, send the detached output, and append "
            "(x, output) to a list. On the last rank the loss of a micro-batch times its share "
            "of all samples is kept in the output's place. Second loop over that list: receive "
            "the gradient unless last, backward, send x.grad unless first."
        ),
    },
    "one_f_one_b": {
        "second": (
            "p - 1 - r ranks are behind rank r. How many forward passes has it done when its "
            "first backward pass begins, and what follows each forward pass from then on? If "
            "two neighbours send to each other at once, who receives?"
        ),
        "nearly": (
            "The warm-up is world size - 1 - rank forward passes. In the loop: forward, and "
            "from number warm_up on one backward of the oldest micro-batch after it; after the "
            "loop the backwards that are left. Send with isend, keep the tensor and the work, "
            "and wait for all of them at the end; receive as before."
        ),
    },
    "zero1": {
        "second": (
            "What must happen between the owner's update of a parameter and the next forward "
            "pass? How do all ranks find the same owners without asking each other? If somebody "
            "changes lr in param_groups, how does the inner optimizer get to know?"
        ),
        "nearly": (
            "The owner of the next parameter is the rank with the fewest bytes so far. The "
            "inner optimizer gets groups with this rank's parameters alone, perhaps none. step: "
            "copy all options of param_groups but params into its groups, call its step, then "
            "broadcast every parameter from its owner. gathered_state_dict: number the "
            "parameters in their order; gather_object brings each rank's {number: state} to "
            "rank 0, which merges them."
        ),
    },
    "fsdp": {
        "second": (
            "When is a whole weight needed in backward, and can it be gathered again then, "
            "instead of being saved? What does each rank keep of a whole gradient, and which "
            "exchange gives it exactly that?"
        ),
        "nearly": (
            "A shard is numel over ranks, rounded up, the last one padded with zeros. An "
            "autograd.Function gathers in forward; its backward is all_to_all_single, then what "
            "arrived is added up and divided by the ranks. For the layer's own forward, "
            "vars(layer)['weight'] = whole hides the shard. saved_tensors_hooks around it: pack "
            "returns a note for a tensor in the whole weight's storage, unpack gathers it "
            "again. Start the next layer's gather with async_op=True before this one computes. "
            "What is not sharded is all_reduced in synchronize."
        ),
    },
    "mesh_2d": {
        "second": (
            "Which ranks make one row of the table, and which one column? new_group must be "
            "called by whom: by its members, or by all? Over which of the two groups are "
            "activations added, and over which gradients averaged?"
        ),
        "nearly": (
            "ranks is arange(data * tensor) viewed as data rows. Every rank loops over all "
            "rows, then over all columns, calls new_group for each, and keeps the one that it "
            "is in. enter sums in backward, leave sums a clone in forward, both over the row's "
            "group; backward returns (gradient, None), as the group has no gradient. average: "
            "all_reduce each .grad over the column's group, and divide by data."
        ),
    },
    "mesh_layout": {
        "second": (
            "How does a rank's number become its place along each dimension of the mesh, if the "
            "last one counts fastest? If a dimension of a product is summed over and is split, "
            "what does each rank hold then?"
        ),
        "nearly": (
            "divmod over the mesh, from its last dimension to its first, gives a rank's places. "
            "A part is the size over the number of parts; a slice begins at the place times "
            "that. forward_sum: first check all dimensions together; then the mesh dimensions "
            "of those names that are split and not in the output, and 4 bytes for each number "
            "of the local output. gradient_sums: forward_sum with the output put in the place "
            "of that input, and the input as the output."
        ),
    },
    "moe_all_to_all": {
        "second": (
            "If every rank knows how many tokens each rank has for each expert, what can each "
            "compute without asking again? Who is taken first where the capacity is not enough? "
            "What is the gradient of an exchange?"
        ),
        "nearly": (
            "Exchange: all_to_all_single(arrived, rows, received, sent); backward is "
            "Exchange.apply with the two lists swapped. moe: bincount with minlength, "
            "all_gather; an expert takes of mine at most the capacity less what lower ranks "
            "have for it, and at least 0. Sort my tokens by expert, stable, without those "
            "dropped; exchange; sort what comes by expert, apply each expert once, sort back; "
            "exchange back. Put the rows in their places, zeros elsewhere, times gate[:, None]."
        ),
    },
}
