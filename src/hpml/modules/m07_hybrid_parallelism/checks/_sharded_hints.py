"""Exercise fsdp's hints."""

HINTS = {
    "start": "What does a layer read when it computes? self.weight. What could stand there "
    "just before, and be gone just after, while the parameter of that name is the shard?",
    "not_sharded": "A parameter that every rank holds whole is not sharded. The layer's "
    "`weight` becomes a new nn.Parameter, this rank's part of the flattened weight.",
    "shard_size": "Flatten the weight, pad it to W equal parts of ceil(elements / W), and keep "
    "your own.",
    "small": "A bias, a layer norm, a layer of few elements: a message costs its latency, and "
    "there is little to save. From 1024 elements on a weight is sharded.",
    "kinds": "isinstance(layer, nn.Linear | nn.Embedding) holds for subclasses too. Of such a "
    "layer it is the weight that is sharded, from 1024 elements on, 1024 among them. A bias, a "
    "convolution's weight, a parameter of a module's own are replicated, however large.",
    "frozen": "requires_grad is a property of the parameter that you replace. Its shard has "
    "the same.",
    "no_gradient": "An optimizer reads p.grad of each shard. What arrives from the "
    "reduce-scatter belongs there, in synchronize() at the latest.",
    "gather": "Go the way back: gather all shards, cut off the padding, give it the shape that "
    "the weight had. A tied weight goes by two names; a replicated one is there already.",
    "unchanged": "The optimizer changes the parameters that your wrapper has. Are the layers' "
    "weights gathered from those same tensors, in every step anew?",
    "sum": "A reduce-scatter adds up. Each rank's loss is a mean over its own share; the loss "
    "of the whole batch is the mean of those.",
    "tied": "One weight, one shard, two uses: each use has a gradient, and the shard's is "
    "their sum. The second must not replace the first.",
    "replicated": "A replicated parameter gets its gradient from autograd, of this rank's "
    "batch alone. Who averages it?",
    "parity": "Follow one gradient: from the whole weight's, flattened and padded as the "
    "weight was, to W parts; part r to rank r; the mean of what arrives into the shard's grad.",
    "stale": "The first step is right. What is kept from one step to the next: a weight that "
    "was gathered before the optimizer changed the shards, a gradient of the step before?",
    "freed": "Autograd keeps what a layer needs for backward, and your weight is part of that. "
    "saved_tensors_hooks around the layer's forward lets you save a note in its place; when "
    "backward asks, gather it again.",
    "again": "One gather serves one use. Does something gather the weight, and something else "
    "gather it again?",
    "not_gathered": "A layer of which each rank has a part is gathered by an all_gather just "
    "before it computes.",
    "one_each": "Each weight is gathered by a collective of its own, when its layer is due. "
    "Several in one message must all be held until the last of them was used.",
    "early": "A weight that is gathered long before its use takes the memory that sharding was "
    "to save. One layer ahead is enough.",
    "memory": "Who still holds a whole weight, or a whole gradient, when its layer is done? "
    "Autograd's saved tensors, an attribute of yours, a list of gradients that wait for "
    "synchronize()?",
    "wire": "A gradient's part for rank r goes to rank r and nowhere else. With Gloo, "
    "reduce_scatter_single is an all_reduce inside. all_to_all_single sends just the parts.",
    "prefetch_forward": "When a layer's weight is there, and before it computes, start the "
    "next one's gather with async_op=True. Which one is next? The one that was next in the "
    "step before.",
    "prefetch_backward": "Backward uses the weights in the reverse order of forward. When it "
    "asks for one, start the gather of the one that forward used before it.",
    "waiting": "Starting a gather and waiting for it are two things. Wait when the layer is "
    "due, not when the gather is started.",
    "half_wire": "What do you gather: the shard, or the shard in compute_dtype? And in which "
    "dtype does the gradient leave? A gradient that is converted before it leaves is as long "
    "as a float32.",
    "master": "An update is often smaller than what bfloat16 can add to a weight: 1 + 0.001 is "
    "1 there. The shard that the optimizer changes stays in float32; what is converted is a "
    "copy that is gathered.",
    "compute": "In a sharded layer everything is in compute_dtype: its input, its weight, its "
    "bias. Its output goes back to the weight's own dtype.",
    "added_in_half": "What arrives are W parts in bfloat16. Convert them, then add: a sum in "
    "bfloat16 keeps 8 bits of it.",
    "replicated_in_half": "What is replicated does not change with compute_dtype: its gradient "
    "is averaged in its own dtype.",
    "mismatch": "Collectives have no names. All ranks gather in the same order: that of the "
    "layers, not that of sizes or of what is ready.",
    "hang": "Every rank takes part in every gather, also for a weight of which its shard is "
    "only padding.",
}
