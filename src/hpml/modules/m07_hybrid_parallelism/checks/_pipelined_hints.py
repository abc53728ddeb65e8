"""Hints that the pipeline exercises share."""

SHAPES = (
    "What is received has the dtype and the shape of what was sent: float64, and the entry of "
    "`shapes` for what comes into the stage. A gradient is shaped like what it is the gradient of; "
    "and both ranks are to take micro-batches in the same order."
)
BATCH_SHAPES = (
    "What is received has the dtype and the shape of what was sent: float64, and `shape` for what "
    "comes into the stage. A gradient is shaped like what it is the gradient of."
)
# Ranks whose calls do not fit together are in a collective: messages are "what arrives"
COLLECTIVE = (
    "Collectives are not allowed here, and none is needed. Only two ranks have to do with a border "
    "between two stages: the one before it and the one behind. Each rank's gradients are those of "
    "its own layers, and no other rank has a part of them."
)

HINTS = {
    "sent_back": "Only the last rank knows the loss. Every other rank's backward pass begins with "
    "the gradient of its output: who has computed it, and how does it get there?",
    "no_backward": "Gradients are to be in the parameters of the stage that you were given: "
    "p.grad for each p in stage.parameters().",
    "scaled": "Gradients are added up in p.grad, once for each micro-batch. Each loss is a mean "
    "over its own samples. How much of the whole batch's mean is that?",
    "mean_of_means": "The last micro-batch is smaller. In the mean over all samples each sample "
    "counts alike: how much does a micro-batch of 2 count in a batch of 8?",
    "sum": "That is the gradient of the sum over all samples. The loss is their mean: `shapes` "
    "tells every rank how many there are in all.",
    "accumulate": "backward() adds to p.grad. Who sets it back in between, or which micro-batches "
    "had no backward pass?",
    "factor": "The direction is right, the length is not. What has been multiplied or divided, or "
    "added up twice? There is one batch here, and no rank has another share of it.",
    "parity": "Follow one micro-batch: what goes into the stage, what comes out, whose gradient "
    "comes back, and to which of the stage's outputs does it belong?",
    "border": "The ranks behind this one have right gradients, so what went forward was right. "
    "Look at the way back: is what the next rank sends the gradient of its input, and does this "
    "rank's backward begin with it, at the output that it belongs to?",
    "weights": "The step of the optimizer is not yours: train_step leaves gradients behind, and "
    "weights as they were.",
    "loss": "The loss of the whole batch is the mean over all its samples, on the last rank. Which "
    "micro-batches are in what you return?",
    "collective": COLLECTIVE,
    "neighbours": "Stage r's output is stage r + 1's input, and nobody else's. Gradients take the "
    "same way back.",
    "messages": "Two messages for each micro-batch at each border: the activations forward, their "
    "gradient back. Shapes need not travel: every rank is given them.",
    "whole": "What travels and what is computed is one micro-batch at a time. With several in one, "
    "the next rank gets nothing to do until all of them are through.",
    "passes": "Each micro-batch goes through each stage once forward and once backward. Is what "
    "comes into the stage what the stage before has computed, and is the gradient that of its "
    "output?",
    "raised": "Start from the exception. If it is about gradients, there are three usual reasons. "
    "The gradient of the input exists only if the input requires grad before the stage computes: "
    "Tensor.requires_grad_(). backward() of what is not a single number needs the gradient of it. "
    "And it begins at what the stage computed, not at a detached copy.",
    "mismatch": COLLECTIVE,
    "what arrives": SHAPES,
}

# Where the whole batch travels at once
BATCH_HINTS = {
    "sent_back": HINTS["sent_back"],
    "no_backward": HINTS["no_backward"],
    "factor": HINTS["factor"],
    "border": HINTS["border"],
    "weights": HINTS["weights"],
    "collective": COLLECTIVE,
    "neighbours": HINTS["neighbours"],
    "raised": HINTS["raised"],
    "sum": "The loss is the mean over the samples, as loss_function returns it: no more is to be "
    "divided or multiplied.",
    "parity": "Follow the batch: what goes into the stage, what comes out, and what does autograd "
    "have to be told so that it goes on where another rank has stopped?",
    "loss": "Only the last rank has targets. What loss_function returns there is to be returned.",
    "messages": "Two messages at each border: the activations forward, their gradient back. Shapes "
    "need not travel: every rank is given its own.",
    "whole": "Each step's batch crosses each border once forward and once back, as a whole.",
    "mismatch": COLLECTIVE,
    "what arrives": BATCH_SHAPES,
}
