"""The hints of choose_layout, by key: the names of mistakes in `_layout_model` and `_layout_cases`,
which the package `instructors` has, and what a judge names itself."""

HINTS = {
    "start": "Which kinds of bytes does a rank hold? Begin with nbytes; it is judged before the "
    "others are written. Then seconds for data 1, where the last table is all zeros. choose "
    "needs no idea: it tries everything.",
    "unwritten": "This function is not written yet; what is written has been judged.",
    "types": "Return plain numbers: bytes, seconds, and from choose a dict with five ints "
    "(`//`, not `/`), or None.",
    "raised": "Start from the exception. data, tensor, pipeline and micro_batches may each "
    "be 1, and no layout may fit.",
    "activations": "That is the states alone. What forward has made stays until backward has "
    "used it, for each live micro-batch.",
    "live": "How many micro-batches has the first stage begun and not ended? With 1F1B no more "
    "than there are stages, and no more than there are micro-batches.",
    "tenths": "Tensor ranks do not share all activations: inputs of a block are whole on each "
    "of them. Only 24 of the 34 bytes are divided by tensor.",
    "tokens": "How many tokens has one micro-batch? The batch is shared by the copies, and a "
    "copy's part is cut into micro-batches.",
    "stages": "Each stage shards one thing more: 1 the optimizer's states, 2 the gradients as "
    "well, 3 the parameters as well. What is sharded is divided by data.",
    "float32": "Parameters and gradients are in 16 bits here: 2 bytes each. The optimizer has "
    "12 for each parameter.",
    "split": "A rank's parameters are those of its stage, and of them its tensor part.",
    "depth": "A rank keeps activations of its own stage's layers only.",
    "memory": "Two sums: n parameters with 2 + 2 + 12 bytes, of which the stage divides some "
    "by data; and tokens of a micro-batch · bytes per token and layer · layers of the stage · "
    "live micro-batches. Put in the example by hand.",
    "bubble": "The last stage begins p - 1 slots late. How many slots pass from the first "
    "micro-batch's begin until the last one's end, and what takes part in a slot?",
    "alone": "With data 1 there is nobody to share gradients or parameters with: (d-1)/d is 0.",
    "rounds": "Stages work at the same time, each on another micro-batch: m micro-batches do "
    "not take m · p slots.",
    "level": "Which links a block of ranks uses goes by its size: it is inside if the size "
    "divides per_node. A block of 4 on nodes of 6 is not: ranks 4 to 7 are on two nodes.",
    "all_reduces": "Four all-reduces for each of the rank's layers and each micro-batch, two in "
    "forward and two in backward. Each sends 2(t-1)/t of the activations.",
    "sends": "Activations go on to the next stage, and their gradients come back: as many "
    "bytes. Only where there are several stages.",
    "block": "Stages come last in the order of ranks: the next stage is tensor · data ranks away. "
    "So a pipeline lies in a block of all ranks, not in one of its own size.",
    "slots": "A slot is one micro-batch in one stage: compute, its layers' all-reduces, what "
    "goes on and comes back. Compute each for the example, then count m + p - 1 slots.",
    "free": "Yours takes as long whatever the stage is. Which bytes does each row of the table "
    "send, how often, and what do they wait for?",
    "hidden": "Only backward of one micro-batch hides gradients: two thirds of the compute of "
    "one slot. What does not fit behind it is waited for; parameters are never hidden.",
    "group": "Ranks that hold the same part are tensor ranks apart. A group of data ranks lies "
    "within a block of data · tensor.",
    "once": "From stage 2 on gradients leave after each micro-batch, as nobody keeps them "
    "whole. In stage 3 parameters are gathered in each forward and in each backward.",
    "waited": "Parameters are waited for: stages 1 and 2 gather them once after the update, "
    "stage 3 twice for each micro-batch.",
    "data": "The slots are right. With u = (d-1)/d · bytes of a rank's parameters / rate: "
    "gradients take 2u or u and hide behind backward of a micro-batch, each time they leave. "
    "Then add the gathers.",
    "ranks": "data · tensor · pipeline are all the ranks of the cluster, and none is below 1.",
    "layers": "Each stage has as many layers: pipeline divides the layers.",
    "heads": "Each tensor rank has as many heads: tensor divides the heads.",
    "batch": "Each micro-batch has as many sequences, and whole ones: data · micro_batches "
    "divides the sequences.",
    "stage": "The stages of ZeRO are 0, 1, 2 and 3.",
    "fits": "That does not fit. Which layouts remain when those with more bytes than memory "
    "are left out?",
    "none": "Nothing fits there: choose returns None.",
    "gave_up": "Something fits there. Do you try every divisor for each size, and every stage?",
    "sharding": "Yours never shards. States may be the difference between fitting and not, and "
    "stage 1 sends no more than stage 0.",
    "all_stages": "One of the four stages, 0 to 3, you never take. Each is the best one somewhere.",
    "one_micro": "Yours never cuts a batch into micro-batches. They shorten the bubble, and "
    "keep fewer activations.",
    "most_micro": "Yours always cuts a batch into as many micro-batches as there are. They shorten "
    "the bubble. But gradients hide behind one of them only, and from stage 2 on they travel with "
    "each.",
    "powers": "Sizes need not be powers of two: on 12 ranks a pipeline may have 3 stages, and "
    "24 sequences may be 3 micro-batches.",
    "node": "Yours keeps tensor ranks on one node. Across nodes it is slow, and legal: pay for "
    "it, and let the seconds decide.",
    "no_pipeline": "Yours has no pipelines. Sending a stage's output on takes fewest bytes.",
    "no_tensor": "Yours has no tensor ranks. Where a batch is small, or activations are large, "
    "nothing else may divide the work.",
    "greedy": "Yours takes the size of one dimension first, and then the best of the rest. A "
    "rule of thumb; the best layout may have fewer of them.",
    "least_memory": "The layout with fewest bytes is seldom the fastest: of all that fit, "
    "seconds decide.",
    "slower": "There is a faster one that fits. Do you try all sizes, all stages and all "
    "micro-batch counts, and is each priced by nbytes and seconds?",
}
