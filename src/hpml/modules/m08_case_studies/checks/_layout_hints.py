"""The hints of choose_layout, by key: the names of mistakes in `_layout_model` and `_layout_cases`,
which the package `instructors` has, and what a judge names itself."""

HINTS = {
    "start": "Which kinds of bytes does a rank hold? Begin with nbytes; it is judged before the "
    "others are written. Then seconds for data 1, where the last table is all zeros. choose needs "
    "no idea: it tries everything.",
    "unwritten": "This function is not written yet; what is written has been judged.",
    "types": "Return plain numbers: bytes, seconds, and from choose a dict with five ints (`//`, "
    "not `/`), or None.",
    "raised": "Start from the exception. data, tensor, pipeline and micro_batches may each be 1, "
    "and no layout may fit.",
    "activations": "That is the states alone. What forward has made stays until backward has used "
    "it, for each live micro-batch.",
    "live": "How many micro-batches has the first stage begun and not ended? With 1F1B no more "
    "than there are stages, and no more than there are micro-batches.",
    "tenths": "Tensor ranks do not share all activations: inputs of a block are whole on each of "
    "them. Only 24 of the 34 bytes are divided by tensor.",
    "tokens": "How many tokens has one micro-batch? The batch is shared by the copies, and a "
    "copy's part is cut into micro-batches.",
    "stages": "Each stage shards one thing more: 1 the optimizer's states, 2 the gradients as "
    "well, 3 the parameters as well. What is sharded is divided by data.",
    "float32": "Parameters and gradients are in 16 bits here: 2 bytes each. The optimizer has 12 "
    "for each parameter.",
    "split": "A rank's parameters are those of its stage, and of them its tensor part.",
    "depth": "A rank keeps activations of its own stage's layers only.",
    "gathered": "In stage 3 a rank computes with whole layers: two of its own layers' parameters "
    "at a time, less its shard of them. With one layer or two that is all of them, and with one "
    "data rank nothing comes on top.",
    "memory": "Two sums: n parameters with 2 + 2 + 12 bytes, of which the stage divides some by "
    "data; and tokens of a micro-batch · bytes per token and layer · layers of the stage · live "
    "micro-batches. Stage 3 has its gathered layers on top. Put in the example by hand.",
    "bubble": "The last stage begins p - 1 slots late. How many slots pass from the first "
    "micro-batch's begin until the last one's end, and what takes part in a slot?",
    "alone": "With data 1 there is nobody to share gradients or parameters with: (d-1)/d is 0.",
    "rounds": "Stages work at the same time, each on another micro-batch: m micro-batches do not "
    "take m · p slots.",
    "level": "Which links ranks use goes by what divides per_node: a tensor group with its stages "
    "is on one node if t·p does. A block of 4 on nodes of 6 is not: ranks 4 to 7 are on two "
    "nodes.",
    "two_levels": "A group that leaves a node shares inside it first. Then each of its g ranks "
    "there sends only its own part, a g-th, across: see half an all-reduce in the text.",
    "all_reduces": "Four all-reduces for each of the rank's layers and each micro-batch, two in "
    "forward and two in backward. Each sends 2(t-1)/t of the activations.",
    "sends": "Activations go on to the next stage, and their gradients come back: as many bytes. "
    "Only where there are several stages.",
    "parts": "All tensor ranks of a stage have the same activations. Each sends its part of them "
    "to its like in the next stage.",
    "block": "Stages come after tensor ranks: the next stage is t ranks away. So a pipeline lies "
    "in a block of t·p ranks, not in one of its own size.",
    "slots": "A slot is one micro-batch in one stage: compute, its layers' all-reduces, what goes "
    "on and comes back. Compute each for the example, then count m + p - 1 slots.",
    "free": "Yours takes as long whatever the stage is. Which bytes does each row of the table "
    "send, how often, and what do they wait for?",
    "hidden": "Only backward of one micro-batch hides gradients: two thirds of the compute of one "
    "slot. What does not fit behind it is waited for.",
    "group": "Ranks that hold the same part are t·p apart: the tensor ranks and the stages of a "
    "copy come first in the order of ranks. So how many of a data group are on one node?",
    "once": "From stage 2 on gradients leave after each micro-batch, as nobody keeps them whole. "
    "In stage 3 parameters are gathered in each forward and in each backward.",
    "waited": "Stages 1 and 2 gather the parameters once, after the update, when there is no pass "
    "to hide behind. A reduce-scatter hides, this all-gather does not.",
    "gathers": "In stage 3 a layer's parameters travel while another layer computes: in forward "
    "the gathers hide behind forward, in backward they hide with the gradients behind backward.",
    "data": "The slots are right. u is half an all-reduce of a rank's 2n bytes among the data "
    "ranks: take the table row by row, and subtract the pass that it hides behind before you "
    "multiply by m.",
    "ranks": "data · tensor · pipeline are all the ranks of the cluster, and none is below 1.",
    "layers": "Each stage has as many layers: pipeline divides the layers.",
    "heads": "Each tensor rank has as many heads: tensor divides the heads.",
    "batch": "Each micro-batch has as many sequences, and whole ones: data · micro_batches "
    "divides the sequences.",
    "stage": "The stages of ZeRO are 0, 1, 2 and 3.",
    "fits": "That does not fit. Which layouts remain when those with more bytes than memory are "
    "left out?",
    "none": "Nothing fits there: choose returns None.",
    "gave_up": "Something fits there. Do you try every divisor for each size, and every stage?",
    "sharding": "Yours never shards. States may be the difference between fitting and not, and "
    "stage 1 sends no more than stage 0.",
    "all_stages": "One of the four stages, 0 to 3, you never take. Each is the best one somewhere.",
    "one_micro": "Yours never cuts a batch into micro-batches. They shorten the bubble, and keep "
    "fewer activations.",
    "most_micro": "Yours always cuts a batch into as many micro-batches as there are. They "
    "shorten the bubble. But gradients hide behind one of them only, and from stage 2 on they "
    "travel with each.",
    "powers": "Sizes need not be powers of two: on 12 ranks a pipeline may have 3 stages, and 24 "
    "sequences may be 3 micro-batches.",
    "node": "Yours keeps tensor ranks on one node. Across nodes it is slow, and legal: pay for "
    "it, and let the seconds decide.",
    "no_pipeline": "Yours has no pipelines. Sending a stage's output on takes fewest bytes.",
    "no_tensor": "Yours has no tensor ranks. Where a batch is small, or activations are large, "
    "nothing else may divide the work.",
    "greedy": "Yours takes the size of one dimension first, and then the best of the rest. A rule "
    "of thumb; the best layout may have fewer of them.",
    "least_memory": "The layout with fewest bytes is seldom the fastest: of all that fit, seconds "
    "decide.",
    "slower": "There is a faster one that fits. Do you try all sizes, all stages and all "
    "micro-batch counts, and is each priced by nbytes and seconds?",
}
