"""How to go on, for each exercise of module 01: the hints after "start"."""

STEPS = {
    "amdahl": {
        "second": (
            "Strong: if one rank needs 1 second, how long do p ranks need? Weak: if p ranks "
            "need 1 second, how long would one rank need for the work of them all? For the last "
            "function, solve the strong formula for the serial fraction."
        ),
        "nearly": (
            "Strong is 1 / (serial + (1 - serial) / ranks). Weak is serial + (1 - serial) * "
            "ranks. Efficiency is the speed-up over the ranks. For the serial fraction s, write "
            "1/speedup = s + (1 - s)/ranks, and bring s to one side."
        ),
    },
    "sync_sgd": {
        "second": (
            "Shards can differ in length, and one can be empty. Is the mean of the ranks' means "
            "then the mean over all samples? Which two things, if each is added up over the "
            "ranks, give the right mean?"
        ),
        "nearly": (
            "start: broadcast the weights from rank 0, and return them. step: x.T @ (x @ "
            "weights - y) is a sum over this rank's samples; all_reduce it, all_reduce the "
            "number of samples too, as a tensor, and divide one by the other before the step."
        ),
    },
    "lr_scaling": {
        "second": (
            "At a step within the warm-up, which part of the way from base_rate to the scaled "
            "rate is done? What does that division do if warm_up_steps is 0, and which case "
            "must come first then?"
        ),
        "nearly": (
            "The factor is the number of ranks, or its square root. During the warm-up: the "
            "base rate, plus the rest of the way to the scaled rate times step over "
            "warm_up_steps. From step warm_up_steps on: the scaled rate. With no warm-up that "
            "is every step."
        ),
    },
    "naive_all_reduce": {
        "second": (
            "In which order does rank 0 receive and add, and at which moment may it send the "
            "total? What would it send if it answered each rank at once?"
        ),
        "nearly": (
            "Rank 0 has two loops over the ranks 1 to p - 1, one after the other: receive and "
            "add; then send the total. Every other rank sends its tensor to 0, and receives "
            "into a new tensor. The input stays as it is: begin with tensor.clone()."
        ),
    },
    "ring_all_reduce": {
        "second": (
            "Which part does rank r send in step s of the first loop, if in step 0 it sends "
            "part r and after that always what it has just added up? After p - 1 steps, which "
            "part is complete on rank r?"
        ),
        "nearly": (
            "All numbers of parts are modulo p. First loop, step s: send part r - s, receive "
            "part r - s - 1 into a tensor of that part's length, and add it. Part r + 1 is then "
            "complete. Second loop, step s: send part r + 1 - s, and receive part r - s "
            "straight into its place. tensor_split gives views, so no copy back is needed."
        ),
    },
    "parameter_server": {
        "second": (
            "At which weights does a worker compute its gradient? So what must arrive at a "
            "worker in each step before it can send something, and how many messages is that?"
        ),
        "nearly": (
            "Server, in each step: a loop that sends the weights, its own gradient, a loop that "
            "receives and adds; then weights - learning_rate * total / ranks. Worker, in each "
            "step: receive into weights, send gradient(weights). No worker is sent anything "
            "after the last step."
        ),
    },
    "async_sgd": {
        "second": (
            "How many gradients has the server had from each worker? Keep that in a dict. Of "
            "two workers, how far may one be ahead of the other, and what happens to one that "
            "is too far ahead?"
        ),
        "nearly": (
            "First all workers get the weights. Then recv without src takes the next message of "
            "anybody, and returns the rank that it was from. Apply it, count it, and let that "
            "worker wait if it has steps left. Then look at all who wait: whose count is at "
            "most the smallest count plus the staleness gets the weights, and waits no longer."
        ),
    },
    "alpha_beta": {
        "second": (
            "For the tree: how many levels do 5 ranks need? For ring and halving-doubling: "
            "which part of nbytes does one rank send in one of the two phases? And in which "
            "phase are numbers added?"
        ),
        "nearly": (
            "Naive: 2 (p - 1) messages of nbytes. Tree: 2 log2(p) of them, log2 rounded up. "
            "Ring: 2 (p - 1) messages of nbytes / p. Halving-doubling: 2 log2(p) messages, "
            "together 2 (p - 1)/p nbytes. Seconds are alpha times the messages, plus beta times "
            "their bytes, plus gamma times half of their bytes: on the way back nothing is "
            "added."
        ),
    },
}
