"""How to go on, for each exercise of module 05: the hints after "start"."""

STEPS = {
    "hvd_torch": {
        "second": (
            "A checkpoint is read on rank 0 alone. Which two broadcasts bring all of it to the "
            "others, and must they come before or after the load? Which rate do the ranks "
            "together need, and which has the checkpoint brought?"
        ),
        "nearly": (
            "Wrap the optimizer first, with named_parameters=model.named_parameters(). Then "
            "load on rank 0 if the file is there; hvd.broadcast_parameters(model.state_dict(), "
            "root_rank=0) and hvd.broadcast_optimizer_state(optimizer, root_rank=0); set every "
            "group's lr to learning_rate times hvd.size(). DistributedSampler(dataset, "
            "hvd.size(), hvd.rank(), seed=seed), and set_epoch in each epoch. Rank 0 saves."
        ),
    },
    "hvd_keras": {
        "second": (
            "In each step the ranks together take the next size times batch_per_rank samples. "
            "Which slice of x gives rank r its samples of all steps at once? Which callback "
            "makes the weights equal, which the metrics, and to which rate does the third one "
            "warm up?"
        ),
        "nearly": (
            "Each rank has x[rank::size] and y[rank::size]. SGD's rate is learning_rate times "
            "hvd.size(), inside hvd.DistributedOptimizer. The callbacks, in this order: "
            "BroadcastGlobalVariablesCallback(0), MetricAverageCallback(), and "
            "LearningRateWarmupCallback with initial_lr that same rate, warmup_epochs, and "
            "momentum_correction=False. verbose is 2 on rank 0, and 0 elsewhere."
        ),
    },
    "hvd_fusion": {
        "second": (
            "When are two tensors in one message: what is true of their transfers' times? And "
            "why can the seconds of a phase not simply be added up over tensors?"
        ),
        "nearly": (
            "Keep a stack of open events for each pid. Sort the phases by start. A transfer "
            "that begins before the first one of the present message has ended belongs to that "
            "message; else it begins a new one. Seconds: the union of the intervals, so keep "
            "how far you have come and add what lies beyond. A file that is cut off: take it up "
            "to its last whole event, and add the bracket."
        ),
    },
    "hvd_compression": {
        "second": (
            "What must decompress know that a half tensor no longer shows? Where can float16 "
            "overflow: in one rank's values, or in the sum of all? And what could you do to "
            "them before they are added up?"
        ),
        "nearly": (
            "compress: tensor.half() if tensor.is_floating_point(), else the tensor itself; the "
            "context is its old dtype either way. decompress: tensor.to(context). average: "
            "hvd.allreduce of the compressed tensor with name=name, op=hvd.Sum and "
            "prescale_factor=1 / hvd.size(), so that it is divided before it is added up; then "
            "decompress."
        ),
    },
}
