"""How to go on, for each exercise of module 06: the hints after "start"."""

STEPS = {
    "process_group": {
        "second": (
            "Under srun, which variable has the tasks of each node, and what does 2(x2),1 mean "
            "for node 1? How do you make a port out of the job id, so that jobs 4711 and 4712 "
            "have two different ones? With no GPU, which device and backend?"
        ),
        "nearly": (
            "Three branches: RANK, SLURM_STEP_ID, else one process. Under srun MASTER_ADDR and "
            "MASTER_PORT win if they are set. Else the port is 10_000 + job id % 20_000, and "
            "the first host is what stands before the first comma outside brackets, with the "
            "first number of each bracket. Device: cuda: and local rank % gpus. start: "
            "init_process_group(backend, init_method='tcp://ADDRESS:PORT', rank=..., "
            "world_size=...), and return the settings."
        ),
    },
    "shard_sampler": {
        "second": (
            "How many samples has each rank, if all have the same number and none is left out? "
            "Who draws the order, and what must be the same on all ranks so that it is the same "
            "order? What changes it from epoch to epoch?"
        ),
        "nearly": (
            "Length: length over world_size, rounded up. A torch.Generator with manual_seed of "
            "seed plus epoch, and randperm. Positions rank, rank + world_size, … below "
            "len(self) times world_size, each modulo length, so that the end is filled up from "
            "the beginning; yield ints."
        ),
    },
    "ddp": {
        "second": (
            "How does a bucket know that its last gradient has arrived? If bucket 2 is complete "
            "before bucket 1 on one rank, in which order must they leave? And what is sent for "
            "a parameter without a gradient in this step?"
        ),
        "nearly": (
            "Broadcast p.detach() and the buffers from rank 0. Buckets: the trained parameters "
            "in reverse, a new one when the next does not fit; a post-accumulate hook counts "
            "down what its bucket lacks. While the next bucket in order is complete: cat its "
            "flat gradients, zeros for None, and all_reduce with async_op=True. synchronize "
            "sends the rest, waits, divides by the world size, splits by numel, sets p.grad, "
            "and resets the counts for the next step."
        ),
    },
    "global_metrics": {
        "second": (
            "Which three numbers can be added up over batches and over ranks? Which reduction "
            "of cross_entropy can be added up, unlike its mean? And if no rank has any sample?"
        ),
        "nearly": (
            "One tensor of three float64: the loss with reduction='sum', the right answers, the "
            "samples. Add up over the batches, one all_reduce after the loop, on every rank "
            "also without a batch, then divide the first two by the third. With 0 samples both "
            "are nan."
        ),
    },
    "checkpoint": {
        "second": (
            "Which position means the same on 2 ranks and on 3: one in the rank's share, or one "
            "in the whole order? When must it be moved on, before the yield or after? What is "
            "on disk if the program dies while it writes?"
        ),
        "nearly": (
            "Draw the order from seed plus epoch; take global_batch at a time, move the "
            "position before the yield, and give out this rank's every world_size-th of it. "
            "After the loop the next epoch, position 0. save: rank 0 writes all three "
            "state_dicts under another name, with flush and os.fsync, and os.replace gives it "
            "its own; then a barrier for all. load: torch.load, and load_state_dict of all "
            "three."
        ),
    },
    "ddp_train": {
        "second": (
            "Under which names do torchrun and srun give a rank its numbers? Of the global "
            "batch, how many samples are each rank's? The loss to print is that of all samples: "
            "what do the ranks add up?"
        ),
        "nearly": (
            "init_process_group with rank and world size; model.to(device), "
            "DistributedDataParallel around it, and an optimizer for its parameters; "
            "DistributedSampler with the seed, and set_epoch in each epoch; batches of "
            "global_batch // world_size. Add up loss.detach() * len(labels) in a float64 "
            "tensor, all_reduce it after each epoch, divide by len(dataset). Rank 0 prints. At "
            "the end destroy_process_group."
        ),
    },
    "find_the_hang": {
        "second": (
            "A rank is at a place: a call in distributed_c10d.py, or none, and a line of "
            "train.py. If all places but one are alike, who is it? With a recorder: which "
            "collective is not retired, and who has no entry for it?"
        ),
        "nearly": (
            "A rank's place: the function of its innermost frame in distributed_c10d.py, or "
            "none, and the line of its innermost one in train.py, by in_stack, or by in_log if "
            "the stack has none. Without a recorder, all others are at one place, in a "
            "collective: that is the call. With one: of an entry that is not retired take "
            "process_group[0] and collective_seq_id; the rank that has no such entry is "
            "missing, and the call is profiling_name after its colon. The line is that of its "
            "place."
        ),
    },
}
