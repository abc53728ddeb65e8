"""How to go on, for each exercise of module 05: the hints after "start"."""

STEPS = {
    "hvd_torch": {
        "second": (
            "A checkpoint is read on rank 0 alone. Which two broadcasts bring all of it to the "
            "others, and must they come before or after the load? Which rate do the ranks "
            "together need, and which has the checkpoint brought?"
        ),
        "nearly": (
            "Wrap the optimizer with the model's named_parameters; load on rank 0 if the file "
            "is there; hvd.broadcast_parameters and hvd.broadcast_optimizer_state from root 0; "
            "set every group's lr to learning_rate times hvd.size(). A DistributedSampler with "
            "size, rank and seed, set_epoch in each epoch. Rank 0 saves."
        ),
    },
    "hvd_keras": {
        "second": (
            "Which samples are rank r's if the ranks take turns? Which callback makes the "
            "weights equal, which the metrics, and to which rate does the third one warm up?"
        ),
        "nearly": (
            "Each rank has x[rank::size] and y[rank::size]. SGD's rate is learning_rate times "
            "hvd.size(), inside hvd.DistributedOptimizer. The callbacks: "
            "BroadcastGlobalVariables from 0, MetricAverage, LearningRateWarmup with that rate "
            "as initial_lr and the warm-up's epochs. verbose is above 0 on rank 0 alone."
        ),
    },
    "hvd_fusion": {
        "second": (
            "When are two tensors in one message: what is true of their transfers' times? And "
            "why can the seconds of a phase not simply be added up over tensors?"
        ),
        "nearly": (
            "Keep a stack of open events for each pid. Sort the phases by start; a transfer "
            "that begins before any of the present message has ended belongs to it, else a new "
            "message begins. Seconds: the union of the intervals, so keep how far you have come "
            "and add what lies beyond. A file that is cut off: up to its last whole event."
        ),
    },
    "hvd_compression": {
        "second": (
            "Which tensors does a half have no place for? And where can float16 overflow: in "
            "one rank's gradient, or in the sum of all?"
        ),
        "nearly": (
            "compress: leave what is not floating point as it is; else half(); both with the "
            "old dtype. decompress: to(context). average: allreduce the compressed tensor with "
            "op=hvd.Sum and prescale_factor 1 over hvd.size(), so that it is divided before it "
            "is added up; then decompress."
        ),
    },
}
