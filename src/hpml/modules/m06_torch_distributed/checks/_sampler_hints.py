"""Exercise shard_sampler's hints."""

HINTS = {
    "start": "7 samples on 3 ranks: who takes which? Try it on paper. One order for all ranks, "
    "drawn from seed and epoch; padded to a multiple of the number of ranks; then each rank "
    "takes its share of it.",
    "own_order": "The ranks must share out ONE order. If each shuffles for itself, with a "
    "generator or a seed of its own, some samples are taken twice and others never. The rank says "
    "which part of the order to take, not which order.",
    "padding": "Padding repeats the order from its start, and again from its start if there are "
    "fewer samples than ranks, until all ranks have ceil(n / W). Count how often each comes up.",
    "from_the_start": "The padding is the order's own first samples, in their order: PyTorch's "
    "sampler has the same. Which sample comes after the last one?",
    "world_size": "One order is drawn for all ranks, from seed and epoch and nothing else: it is "
    "the same with another number of ranks. Only which part a rank takes depends on rank and world "
    "size.",
    "blocks": "Where one rank's block ends, the next must begin. If blocks are ceil(n / W) long, "
    "they also start at multiples of ceil(n / W).",
    "everything": "Here every rank takes all samples: the ranks do the same work W times over. "
    "Each is to take only its part of the order, and rank and world size say which.",
    "tail": "Rounding down loses up to W - 1 samples in each epoch. Round up, and fill the gap.",
    "many": "With the padding there are W · ceil(n / W) samples to be dealt out, and each rank "
    "takes one W-th of them.",
    "uneven": "A rank with one sample more takes one step more, and waits in all_reduce for ranks "
    "that have finished. All must have the same number, ceil(n / W): the order is repeated from "
    "its start until it is long enough. With fewer samples than ranks, repeating it once may not "
    "do.",
    "len": "A loader and a progress bar ask len() before they iterate. It is this rank's number of "
    "samples, not the data set's.",
    "shuffle": "Neighbours in a data set often resemble each other, and many sets are sorted by "
    "class. Draw a random permutation; to rotate or stride is not to shuffle.",
    "set_epoch": "The epoch must take part in what seeds the order. Without it every epoch brings "
    "the same batches again: the mistake of leaving out `sampler.set_epoch(epoch)`.",
    "own_block": "A rank that shuffles only within its own part never sees the rest of the data, "
    "and batches always mix the same samples. Shuffle everything, then deal out.",
    "own_generator": "Random numbers drawn elsewhere (augmentation, dropout, another sampler) must "
    "not change the order, nor the order them. Give the permutation a torch.Generator of its own, "
    "made anew from seed and epoch each time.",
    "seed": "Two runs with two seeds should not see the data in the same order. The seed must take "
    "part in what seeds the generator, beside the epoch.",
    "types": "A data set is indexed by plain ints: .tolist() makes them of a tensor.",
    "range": "Indices run from 0 to the number of samples less one.",
    "raised": "Start from the exception: it names a line of your answer. If that works with many "
    "samples, try none, one, and fewer than ranks by hand.",
    "hang": "A sampler needs no communication: all ranks compute one order from seed and epoch.",
}
