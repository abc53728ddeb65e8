# ---
# jupyter:
#   jupytext:
#     formats: ipynb,py:percent
#     text_representation:
#       extension: .py
#       format_name: percent
#   kernelspec:
#     display_name: Python 3 (ipykernel)
#     language: python
#     name: python3
# ---

# %% [markdown]
# # 07 Hybrid parallelism and model sharding
#
# A model that one rank cannot hold has to be split. By layers, by tensors, by optimizer states, or
# by several of these at once: what does each rank then hold, what does it send, and what does it
# wait for?
#
# Before most cells there is a question in italics. Write your answer down, then run the cell.
# Sections marked *(more)* are for the evening: fold them away, and come back to them.

# %%
# %load_ext hpml
# %matplotlib inline
import torch
from torch import nn
from torch.nn import functional as F
from hpml.publish import conclude, publish_figure, skip

# %% [markdown]
# ## 1. It does not fit
#
# Our model is a vision transformer with 25 million parameters: 102 MB. A training step with Adam
# needs more than the parameters:
#
# | | bytes for each parameter, in float32 |
# |---|---|
# | parameters | 4 |
# | gradients | 4 |
# | optimizer states: Adam's two moments | 8 |
# | activations, kept for `backward` | grow with the batch, not with the parameters |
#
# Below, each rank may use 350 MB, and has the whole model, as in data parallel training.
#
# *Predict: does a step fit? If not: which of the last three lines of the cell is too much?*


# %%
from hpml import models
from hpml.modules.m07_hybrid_parallelism.lecture.memory_picture import memory_picture
from hpml.predict.training_memory import beside_formula


def transformer(depth):
    """A vision transformer of `depth` blocks; an image is 16 patches, each a token of width 512."""
    torch.manual_seed(0)
    return models.VisionTransformer(width=512, depth=depth, heads=8, patch=8)


images, labels = torch.randn(8, 3, 32, 32), torch.randint(0, 10, (8,))

# %% tags=["nbval-ignore-output", "raises-exception"]
# %%ranks 2 --memory 350mb --evidence whole
model = transformer(depth=8)
optimizer = torch.optim.Adam(model.parameters())
loss = F.cross_entropy(model(images), labels)
loss.backward()
optimizer.step()

# %% tags=["nbval-ignore-output"]
count = sum(p.numel() for p in transformer(depth=8).parameters())
states = max(rank.live.highest["optimizer states"] for rank in whole.ranks)
conclude(
    whole.diagnosis is not None and whole.diagnosis.kind == "memory" and 0 < states < 8 * count,
    "It ends in the last one. Adam makes its moments in the first `optimizer.step()`, one parameter "
    f"after the other. {states / 1e6:.0f} MB of them were there, and {8 * count / 1e6:.0f} MB are "
    f"needed. Without activations the whole step takes 16 bytes a parameter: {16 * count / 1e6:.0f} "
    "MB.",
    f"no rank ran out of memory in the optimizer: {whole.diagnosis}.",
)

# %% [markdown]
# More ranks with a whole model each do not help. So split the model: rank 0 takes the first four
# blocks, rank 1 the other four. Activations go from rank 0 to rank 1, and their gradient comes back.

# %% tags=["nbval-ignore-output"]
# %%ranks 2 --memory 350mb --evidence split
import torch.distributed as dist

half = transformer(depth=4)  # four of the eight blocks
optimizer = torch.optim.Adam(half.parameters())
if rank == 0:
    tokens = half.embed(images)
    for block in half.blocks:
        tokens = block(tokens)
    dist.send(tokens.detach(), dst=1)
    gradient = torch.empty_like(tokens)
    dist.recv(gradient, src=1)
    tokens.backward(gradient)
else:
    received = torch.empty(8, 16, 512)
    dist.recv(received, src=0)
    tokens = received.requires_grad_()
    for block in half.blocks:
        tokens = block(tokens)
    logits = half.head(half.norm(tokens).mean(dim=1))
    F.cross_entropy(logits, labels).backward()
    dist.send(received.grad, dst=0)
optimizer.step()

# %% [markdown]
# It fits: the step ends, with half of these 16 bytes a parameter on each rank.
#
# ### What each half holds *(more)*
#
# Below are the peaks of both runs, by kind of tensor.

# %% tags=["nbval-ignore-output"]
of_half = sum(p.numel() for p in transformer(depth=4).parameters())
print(beside_formula([rank.live.highest for rank in split.ranks], of_half))
display(
    memory_picture(
        {"the whole model on each rank": whole, "half of it on each rank": split},
        title="A rank with half of the model stays below its 350 MB",
    )
)

# %% tags=["nbval-ignore-output"]
activations = max(rank.live.highest["activations"] for rank in split.ranks)
peaks = [rank.live.peak for rank in split.ranks]
conclude(
    split.diagnosis is None and max(peaks) < 1.3 * 16 * of_half,
    f"It fits. At their peaks the ranks hold {peaks[0] / 1e6:.0f} and {peaks[1] / 1e6:.0f} MB of "
    f"tensors, most of it the 16 bytes a parameter. The activations of 8 images are "
    f"{activations / 1e6:.0f} MB: {activations / (4 * 128 * 512 * 4):.0f} numbers for each number "
    "that goes from one block to the next. They grow with the batch.",
    f"the ranks held {peaks} bytes of tensors at their peaks.",
)

# %% [markdown]
# ## 2. Layers on ranks: who idles *(more)*
#
# It fits. Is it any faster than one rank? Here is the same split again, of a smaller transformer
# and a larger batch, with a mark around everything that a rank computes.
#
# *Predict: for which share of the step does rank 0 compute? And rank 1?*

# %%
# %%ranks 2 --evidence layers
import torch.distributed as dist

from hpml.models import VisionTransformer
from hpml.ranks import mark
from hpml.trace.computations import computing

torch.manual_seed(0)
model = VisionTransformer.of_size("small", depth=4)
stage = nn.Sequential(*model.blocks[:2]) if rank == 0 else nn.Sequential(*model.blocks[2:])
tokens = torch.randn(16, 64, 192)
for _ in range(4):
    dist.barrier()
    mark("step begins")
    if rank == 0:
        with computing("forward", 0):
            output = stage(tokens)
        dist.send(output.detach(), dst=1)
        gradient = torch.empty_like(output)
        dist.recv(gradient, src=1)
        with computing("backward", 0):
            output.backward(gradient)
    else:
        received = torch.empty_like(tokens)
        dist.recv(received, src=0)
        received.requires_grad_()
        with computing("forward", 0):
            loss = stage(received).square().mean()
        with computing("backward", 0):
            loss.backward()
        dist.send(received.grad, dst=0)
    mark("step ends")

# %% tags=["nbval-ignore-output"]
from hpml.trace import computations, pipeline_picture, repetition

layers = repetition.quickest(layers, since="step begins", until="step ends")
done = computations.computations(layers)
title = "Only one of the two ranks computes at a time"
display(pipeline_picture.pipeline_picture({"two stages": done}, title=title))

# %% tags=["nbval-ignore-output"]
idle = computations.idle_share(done)
sent = sum(call.nbytes for call in layers.ranks[0].calls if call.operation == "send")
conclude(
    idle >= 0.49,
    f"From the first computation to the last, the ranks idle {idle:.0%} of their time: what one "
    "computes next depends on what the other computes now. Two ranks have the memory of two and the "
    f"speed of one. What they send is little: {sent / 1e6:.2f} MB of activations, and as much back.",
    f"the ranks idled {idle:.0%} of the time: with only one at work at a time it cannot "
    "be less than half.",
)

# %% [markdown]
# With *p* stages, each rank computes 1/*p* of the time. (`split_layers` is your exercise on this:
# any number of stages, of different sizes.)

# %% [markdown]
# ## 3. GPipe: micro-batches and the bubble
#
# Split by layers, the model fits, and is no faster: while one rank computes, the others wait. With *p*
# stages, each computes 1/*p* of the time (section 2 measures it).
#
# So cut the batch into *m* micro-batches, and send each of them on as soon as it is done. While rank 1
# works on the first one, rank 0 works on the second. Gradients add up over the micro-batches, and
# the weights change once for each batch: the mathematics stays the same (Huang et al. 2019, GPipe,
# section 2.2).
#
# The ranks still idle while the pipeline fills and while it drains. That is the *bubble*.
#
# *Predict: four stages, eight micro-batches, and a backward pass takes twice as long as a forward
# pass. Which share of the time does a rank idle?*

# %%
from hpml.models import VisionTransformer
from hpml.modules.m07_hybrid_parallelism.lecture.bubble_picture import bubble_picture
from hpml.predict import pipeline
from hpml.trace import computations, pipeline_picture, repetition

worked_out = {
    f"m = {m}": pipeline.played(pipeline.gpipe(4, m), forward=1 / m, backward=2 / m)
    for m in (1, 4, 8)
}
display(
    pipeline_picture.pipeline_picture(
        worked_out,
        title="GPipe's schedule, worked out: the more micro-batches, the smaller the bubble",
        unit="1 is a forward pass of the whole batch through one stage",
    )
)

# %% [markdown]
# Each rank computes *m* micro-batches, and waits as long as *p* − 1 of them take: (*p* − 1) /
# (*m* + *p* − 1) of the time is idle. For *p* = 4 and *m* = 8 that is 3/11, or 27 %, however long a
# backward pass takes.
#
# More micro-batches have a price: each is smaller, and small matrices compute less efficiently. And
# in GPipe all *m* micro-batches are forward before the first goes back, so their activations pile
# up. `gpipe` is your exercise: write the schedule.
#
# ### The bubble, measured *(more)*
#
# With *m* = 4 *p* the formula still has 3/19, or 16 %. GPipe's authors found it negligible there
# (section 2.3). They keep only each stage's input, compute the rest again in the backward pass
# (section 10), and put a part of that into the bubble.
#
# Now run it, with PyTorch's own schedule. Four ranks on two cores would measure how the cores are
# shared, so **the four stages only wait**: 20 ms forward, 40 ms backward, and no core is needed. The
# messages between them are real. Two stages with real compute are beside them: section 2's transformer
# on a batch of 32 images.


# %%
def pipeline_steps(layers, batch, kind, counts):
    """On a rank, whose stage is `layers`: for each of these numbers m of micro-batches three
    steps of a schedule of that kind, each between the marks "m = 8 begins" and "m = 8 ends"."""
    import torch.distributed as dist
    from torch.distributed.pipelining import PipelineStage

    from hpml.ranks import mark
    from hpml.trace.computations import watch

    for m in counts:
        rank, world_size = dist.get_rank(), dist.get_world_size()
        stage = PipelineStage(layers, rank, world_size, torch.device("cpu"))
        watch(stage)
        schedule = kind(stage, m, loss_fn=lambda output, target: (output - target).square().mean())
        for _ in range(3):
            dist.barrier()
            mark(f"m = {m} begins")
            if stage.is_first:
                schedule.step(batch)
            elif stage.is_last:
                schedule.step(target=batch)
            else:
                schedule.step()
            mark(f"m = {m} ends")


# %%
# %%ranks 4 --evidence waiting
from torch.distributed.pipelining import ScheduleGPipe

from hpml.models.waiting import Waiting

stage = Waiting(forward=0.020, backward=0.040)
pipeline_steps(stage, torch.randn(16, 8), ScheduleGPipe, counts=(1, 2, 4, 8, 16))

# %%
# %%ranks 2 --evidence computing
from torch.distributed.pipelining import ScheduleGPipe

torch.manual_seed(0)
blocks = VisionTransformer.of_size("small", depth=4).blocks
stage = nn.Sequential(*(blocks[:2] if rank == 0 else blocks[2:]))
pipeline_steps(stage, torch.randn(32, 64, 192), ScheduleGPipe, counts=(1, 2, 4, 8, 16))


# %% tags=["nbval-ignore-output"]
def bubbles(evidence, names=(1, 2, 4, 8, 16)):
    """The idle share in the quickest of the three steps, by number of micro-batches."""
    steps = {m: repetition.quickest(evidence, f"m = {m} begins", f"m = {m} ends") for m in names}
    done = {m: computations.computations(step) for m, step in steps.items()}
    return {m: computations.idle_share(one) for m, one in done.items()}


waited, computed = bubbles(waiting), bubbles(computing)
figure = bubble_picture(
    {"four stages that wait": (4, waited), "two stages that compute": (2, computed)},
    title=f"16 micro-batches: four ranks idle {waited[16]:.0%} of the time, in place of "
    f"{waited[1]:.0%}",
)
publish_figure(
    "the bubble of a pipeline",
    figure,
    "GPipe's schedule in PyTorch: the share of the ranks' time in which they compute nothing. Four "
    "stages play their compute by waiting, two stages compute. Lines are (p-1)/(m+p-1).",
)

# %% tags=["nbval-ignore-output"]
off = max(abs(share - pipeline.bubble(4, m)) for m, share in waited.items())
conclude(
    off < 0.08,
    f"The four stages that wait are at most {100 * off:.1f} percentage points from the formula: with "
    f"m = 8 they idle {waited[8]:.0%} of the time, and the formula has {pipeline.bubble(4, 8):.0%}.",
    f"the four stages were up to {100 * off:.0f} percentage points from the formula: where others "
    "use the cores, messages arrive late.",
)
conclude(
    computed[8] < computed[1] - 0.1,
    f"The two that compute go from {computed[1]:.0%} idle down to {computed[8]:.0%} with m = 8, and "
    f"the formula has {pipeline.bubble(2, 8):.0%}. What is above the formula is sending, and stages "
    "that do not take equally long.",
    f"two stages that compute idled {computed[1]:.0%} with one micro-batch, {computed[8]:.0%} with "
    "eight: others used the cores as well.",
)

# %% [markdown]
# ## 4. 1F1B: what stays alive
#
# A rank needs only as many micro-batches under way as fill the pipeline. From then on, let it do one
# backward pass after each forward pass: *1F1B* (Narayanan et al. 2021, section 2.2.1).
#
# *Predict: does the bubble get smaller? How many micro-batches' activations does rank 0 hold at
# most, of eight? And rank 3?*

# %%
from hpml.models import VisionTransformer
from hpml.modules.m07_hybrid_parallelism.lecture import stale_stages
from hpml.predict import pipeline
from hpml.trace import computations, pipeline_picture, repetition

schedules = {"GPipe": pipeline.gpipe(4, 8), "1F1B": pipeline.one_f_one_b(4, 8)}
schedules["interleaved 1F1B, two chunks on each rank"] = pipeline.interleaved(4, 8, chunks=2)
played = {name: pipeline.played(schedule) for name, schedule in schedules.items()}
display(
    pipeline_picture.pipeline_picture(
        played,
        title="1F1B has GPipe's bubble, and frees activations early; interleaving makes it smaller",
        unit="1 is a forward pass of one micro-batch through all layers of a rank",
    )
)
for name, schedule in schedules.items():
    live = computations.live_activations(played[name]).values()
    print(f"{name:43} live at most: {', '.join(f'{n / schedule.chunks:g}' for n in live)}")

# %% [markdown]
# The bubble is the same. But rank *r* holds at most *p* − *r* micro-batches, however many there are:
# 4 on rank 0, and 1 on rank 3. So a pipeline may take more micro-batches in a batch, which is what
# makes the bubble small. (The third schedule is explained below.)
#
# ### Interleaved: chunks of layers *(more)*
#
# The third schedule makes the bubble small in another way. Each rank has *v* = 2 separate chunks of
# layers, rank 0 the first and the fifth eighth of them. A chunk takes half the time, and so does
# filling the pipeline: the bubble is (*p* − 1) / (*v m* + *p* − 1). The price is *v* times as many
# messages, somewhat more activations, and *m* has to be a multiple of *p* (section 2.2.2).
#
# ### 1F1B, measured *(more)*
#
# First the bubble: section 3's four stages that wait, with eight micro-batches. (Run *The bubble,
# measured* there first: these cells use its functions.)

# %%
# %%ranks 4 --evidence waiting_in_turn
from torch.distributed.pipelining import Schedule1F1B

from hpml.models.waiting import Waiting

stage = Waiting(forward=0.020, backward=0.040)
pipeline_steps(stage, torch.randn(16, 8), Schedule1F1B, counts=[8])

# %% tags=["nbval-ignore-output"]
idle = {"GPipe": waited[8], "1F1B": bubbles(waiting_in_turn, [8])[8]}
conclude(
    min(idle.values()) > pipeline.bubble(4, 8) - 0.01 and abs(idle["GPipe"] - idle["1F1B"]) < 0.1,
    f"The four ranks idled {idle['GPipe']:.0%} of the time with GPipe and {idle['1F1B']:.0%} with "
    f"1F1B. The formula has {pipeline.bubble(4, 8):.0%} for both.",
    f"the four ranks idled {idle['GPipe']:.0%} of the time with GPipe and {idle['1F1B']:.0%} with "
    f"1F1B, where the formula has {pipeline.bubble(4, 8):.0%}: while others use the cores, messages arrive "
    "late.",
)

# %% [markdown]
# And what stays alive: two stages of the transformer, eight micro-batches.

# %%
# %%ranks 2 --live-tensors --evidence all_forward
from torch.distributed.pipelining import ScheduleGPipe

blocks = VisionTransformer.of_size("small", depth=4).blocks
stage = nn.Sequential(*(blocks[:2] if rank == 0 else blocks[2:]))
pipeline_steps(stage, torch.randn(32, 64, 192), ScheduleGPipe, counts=[8])

# %%
# %%ranks 2 --live-tensors --evidence in_turn
from torch.distributed.pipelining import Schedule1F1B

blocks = VisionTransformer.of_size("small", depth=4).blocks
stage = nn.Sequential(*(blocks[:2] if rank == 0 else blocks[2:]))
pipeline_steps(stage, torch.randn(32, 64, 192), Schedule1F1B, counts=[8])

# %% tags=["nbval-ignore-output"]
ran = {"GPipe": all_forward, "1F1B": in_turn}
steps = {name: repetition.quickest(one, "m = 8 begins", "m = 8 ends") for name, one in ran.items()}
done = {name: computations.computations(step) for name, step in steps.items()}
title = "Two stages that compute: 1F1B goes back as soon as it can"
display(pipeline_picture.pipeline_picture(done, title=title))

# %% tags=["nbval-ignore-output"]
held = {name: [rank.live.highest["activations"] / 1e6 for rank in ran[name].ranks] for name in ran}
piled, freed = (computations.live_activations(one) for one in done.values())
conclude(
    set(piled.values()) == {8} and max(freed.values()) <= 2 and held["1F1B"][0] < held["GPipe"][0],
    f"With GPipe each rank held the activations of {piled[0]} micro-batches at one time, with 1F1B "
    f"rank 0 held those of {freed[0]} and rank 1 of {freed[1]}. In bytes of tensors these are "
    f"{held['GPipe'][0]:.0f} and {held['GPipe'][1]:.0f} MB with GPipe, {held['1F1B'][0]:.0f} and "
    f"{held['1F1B'][1]:.0f} MB with 1F1B.",
    f"live micro-batches by rank were {piled} with GPipe and {freed} with 1F1B, and MB {held}.",
)

# %% [markdown]
# ### PipeDream: never flush *(more)*
#
# All of these *flush*: the pipeline drains before the weights change. PipeDream (Narayanan et al.
# 2019) does not. Each rank updates its weights after each backward pass, and goes on.
#
# *Predict: what is wrong with the gradients then?*

# %%
flushed = pipeline.in_batches(pipeline.one_f_one_b(4, 4), 3)
never_flushed = pipeline.pipedream(4, 12)
display(
    pipeline_picture.pipeline_picture(
        {
            "1F1B, three batches of four, flushed": pipeline.played(flushed),
            "PipeDream": pipeline.played(never_flushed),
        },
        title="Without a flush the pipeline stays full",
        unit="1 is a forward pass of one micro-batch through one stage",
    )
)
print("updates between forward and backward pass, rank 0 to 3")
print("  1F1B, flushed:", *pipeline.staleness(flushed, every=4))
print("  PipeDream:    ", *pipeline.staleness(never_flushed))

# %% [markdown]
# Between a micro-batch's forward and backward pass on rank 0, three others change the weights there.
# A backward pass with other weights than the forward pass would give the gradient of nothing at all.
# So a rank keeps the weights that the forward pass used, until the backward pass is done: up to *p*
# versions on rank 0 (*weight stashing*, section 3.3 of the paper). The gradient is then a true one,
# but of older weights, and of differently old ones in each stage.
#
# What does that do to training? Here it is, worked out in one process: four layers as four stages
# learn a teacher network. The time is that of the schedules above.

# %% tags=["nbval-ignore-output"]
problem = stale_stages.problem()
runs = {rate: stale_stages.courses(problem, rate) for rate in (0.8, 4.8)}
stale, fresh = ({rate: list(run.values())[k] for rate, run in runs.items()} for k in (0, 1))
worse = {rate: stale[rate].final / fresh[rate].final - 1 for rate in runs}
display(
    stale_stages.courses_picture(
        runs,
        title=f"After as many updates, stale weights cost {worse[0.8]:.0%} or {worse[4.8]:.0%}",
    )
)

# %% tags=["nbval-ignore-output"]
end = stale[0.8].times[-1]
conclude(
    worse[0.8] < 0.05 < 0.1 < worse[4.8],
    f"With the low rate staleness does next to no harm: after the same 400 updates the loss is "
    f"{worse[0.8]:.0%} higher, and they took a quarter of the time. At that moment the pipeline that "
    f"flushes after each micro-batch has {fresh[0.8].at(end):.3f}, PipeDream {stale[0.8].at(end):.3f}. "
    f"With the high rate PipeDream's loss stays {worse[4.8]:.0%} above it: weights that are three "
    "updates old are then far from where they are now.",
    f"after the same updates PipeDream's loss is {worse[0.8]:.0%} higher with the low rate, "
    f"{worse[4.8]:.0%} with the high one.",
)

# %% [markdown]
# ## 5. Tensors: column, then row
#
# A pipeline splits between layers. What if one layer alone is too large? Then split its matrix. A
# transformer's MLP is two of them: Z = GELU(X A) B.
#
# *Predict: A can be split by columns or by rows. Which of the two lets each rank go on to GELU
# without waiting for another? For an X of 4 MB, how many MB does each of two ranks then send, forward
# and backward?*

# %%
from hpml.modules.m07_hybrid_parallelism.lecture.tensor_picture import column_then_row
from hpml.predict.collectives import all_reduce_bytes

column_then_row(title="One pair of layers on two ranks: one all-reduce forward, one backward")

# %% [markdown]
# Columns. Each rank then has whole columns of X A, can apply GELU to them, and they are just what its
# rows of B need. What comes out has the shape of Z, and its sum over the ranks is Z. With rows of A
# first, X A would be such a sum, and GELU of a sum is not the sum of GELUs: it would take one more
# all-reduce. This is Megatron-LM (Shoeybi et al. 2019, section 3).
#
# Now run it, and count. X is 2048 tokens of width 512, 4 MB.

# %%
torch.manual_seed(0)
X = torch.randn(2048, 512, requires_grad=True)
A, B = torch.randn(512, 2048) / 512**0.5, torch.randn(2048, 512) / 2048**0.5
dZ = torch.randn(2048, 512)  # the gradient of the output
unsplit = F.gelu(X @ A) @ B
(dX,) = torch.autograd.grad(unsplit, X, dZ)
Z = unsplit.detach()

# %%
# %%ranks 2 --link 1gbit --evidence pair --out off
import torch.distributed as dist

mine = slice(1024 * rank, 1024 * (rank + 1))  # these columns of A, these rows of B
summand = F.gelu(X @ A[:, mine]) @ B[mine]
whole = summand.detach().clone()
dist.all_reduce(whole)  # g: forward
(gradient,) = torch.autograd.grad(summand, X, dZ)
dist.all_reduce(gradient)  # f: backward
off = max((whole - Z).abs().max().item(), (gradient - dX).abs().max().item())

# %% tags=["nbval-ignore-output"]
calls = pair.ranks[0].calls
for call in calls:
    print(f"{call.operation}: {call.nbytes / 1e6:.2f} MB")
if pair.no_link:
    skip("bytes by the kernel's count", pair.no_link)

# %% tags=["nbval-ignore-output"]
conclude(
    max(off) < 1e-4 and len(calls) == 2,
    "Output and gradient are those of the unsplit layers, up to rounding "
    f"(at most {max(off):.0e} apart).",
    f"output or gradient are {max(off):.1e} from those of the unsplit layers.",
)
if not pair.no_link:
    least = 2 * all_reduce_bytes(2, X.nbytes)
    counted = pair.ranks[0].traffic.sent_bytes
    conclude(
        least <= counted < 1.1 * least,
        f"By the kernel's count rank 0 sent {counted / 1e6:.2f} MB. Two all-reduces of X's size are "
        f"{least / 1e6:.2f} MB, and headers come on top. The size of A and B has no part in it.",
        f"rank 0 sent {counted / 1e6:.2f} MB, and two all-reduces are {least / 1e6:.2f} MB.",
    )

# %% [markdown]
# Attention is split in the same way: queries, keys and values by columns, which are whole heads, and
# the output matrix by rows. So a transformer block has two such pairs, and four all-reduces in a step,
# each of (tokens × width). A rank waits for each of them, where the gradients of data parallel training
# travel while `backward` runs. That is why tensor parallelism stays inside a node, where links are
# fast.
#
# `tensor_parallel` is your exercise: both layers as modules, so that `backward` does its all-reduce by
# itself. Mind the bias.
#
# ### Fewer bytes than data parallelism? *(more)*
#
# For each block, data parallel training sends the gradients of 12 · width² parameters.
#
# *Predict: which of the two sends less on 8 ranks, for width 12288 as in GPT-3, and one sequence of
# 2048 tokens? And for a step of 50,000 tokens, which is one of 64 parts of GPT-3's batch?*

# %%
data = all_reduce_bytes(8, 12 * 12288**2 * 2)
tensor, many = (4 * all_reduce_bytes(8, tokens * 12288 * 2) for tokens in (2048, 50_000))
conclude(
    tensor < data < many,
    f"For a block in bfloat16, data parallelism sends {data / 1e9:.1f} GB from each rank, once a step. "
    f"Tensor parallelism sends {tensor / 1e9:.1f} GB for one sequence and {many / 1e9:.1f} GB for 50,000 "
    "tokens: it pays for each micro-batch, and sends less only up to 3 times the width, 36,864 tokens a "
    "step. And gradients travel while `backward` runs, where here every all-reduce is waited for, four "
    "times in each block.",
    f"tensor parallelism sends {tensor / 1e9:.1f} and {many / 1e9:.1f} GB, data {data / 1e9:.1f} GB.",
)

# %% [markdown]
# ## 6. Sequences and vocabularies split *(more)*
#
# Between the pairs there are layer norms, and in many models dropout. They treat each token alone,
# and so far every rank does all of that, as every other rank does. *Sequence parallelism* gives each
# rank a share of the tokens there (Korthikanti et al. 2022, section 4.2.2). In front of the column
# layer the ranks gather all tokens; after the row layer each gets the sum of its own tokens only.
#
# *Predict: an all-gather and a reduce-scatter, in place of one all-reduce. Are those more bytes, or
# fewer?*

# %%
from hpml.modules.m07_hybrid_parallelism.lecture.tensor_picture import tokens_then_columns

tokens_then_columns(title="Between the pairs, a token is on one rank only")


# %%
def kept_by_layer_norm(tokens):
    """The bytes that a layer norm of these tokens keeps for its backward pass."""
    kept = []
    hooks = (lambda t: kept.append(t.nbytes), lambda t: t)  # when it is kept, when it is used
    with torch.autograd.graph.saved_tensors_hooks(*hooks):
        F.layer_norm(tokens.detach().requires_grad_(), (512,))
    return sum(kept)


# %%
# %%ranks 2 --link 1gbit --evidence sequence --out off,kept
import torch.distributed as dist

mine = slice(1024 * rank, 1024 * (rank + 1))  # columns of A, rows of B, and tokens too


def gather(part):
    parts = [torch.empty_like(part) for _ in range(world_size)]
    dist.all_gather(parts, part)
    return torch.cat(parts)


def reduce_scatter(summand):
    """Everybody's summand of my tokens, added up."""
    parts = torch.empty_like(summand)
    dist.all_to_all_single(parts, summand.contiguous())
    return sum(parts.chunk(world_size))


here = X.detach()[mine]  # a layer norm or dropout would work on these
tokens = gather(here).requires_grad_()
summand = F.gelu(tokens @ A[:, mine]) @ B[mine]
output = reduce_scatter(summand.detach())
(gradient,) = torch.autograd.grad(summand, tokens, gather(dZ[mine]))
gradient = reduce_scatter(gradient)
off = max((output - Z[mine]).abs().max().item(), (gradient - dX[mine]).abs().max().item())
kept = kept_by_layer_norm(here)

# %% tags=["nbval-ignore-output"]
for call in sequence.ranks[0].calls:
    print(f"{call.operation}: {(call.nbytes - call.kept) / 1e6:.2f} MB for the other rank")
if sequence.no_link:
    skip("bytes by the kernel's count", sequence.no_link)

# %% tags=["nbval-ignore-output"]
if not sequence.no_link:
    before, now = (one.ranks[0].traffic.sent_bytes / 1e6 for one in (pair, sequence))
    conclude(
        max(off) < 1e-4 and abs(now / before - 1) < 0.05,
        f"The same result, and the same bytes: rank 0 sent {now:.2f} MB, and {before:.2f} MB in "
        "section 5. An all-reduce *is* a reduce-scatter and an all-gather.",
        f"rank 0 sent {now:.2f} MB, in section 5 {before:.2f} MB; results are {max(off):.0e} apart.",
    )
unsplit = kept_by_layer_norm(X)
conclude(
    sum(kept) == unsplit,
    f"But for its backward pass a layer norm here keeps {kept[0] / 1e6:.2f} MB on each rank, in place "
    f"of {unsplit / 1e6:.2f} MB.",
    f"layer norms keep {kept} bytes on the ranks, {unsplit} bytes on one.",
)

# %% [markdown]
# The memory is the point: for layer norms, dropout and the residual path it is divided by the number
# of ranks, as inside the pairs (the paper counts it in section 4). To keep all of that gain,
# the gathered tokens are not kept either: `backward` gathers them once more, for A's gradient.
#
# (The reduce-scatter here is an all-to-all and a sum. Gloo's own `reduce_scatter_single` gives the
# same numbers, but sends as much as an all-reduce; NCCL's does not.)
#
# ### A loss over a split vocabulary
#
# A language model ends with a matrix of width × vocabulary, split by columns: each rank has the
# logits of its words. For the loss one might gather all logits.
#
# *Predict: 512 tokens, a vocabulary of 32,000. How many MB of logits are that? How many numbers for
# each token does the loss really need from the other ranks?*

# %%
torch.manual_seed(0)
hidden, words = torch.randn(512, 64, requires_grad=True), torch.randn(64, 32_000) / 8
target = torch.randint(32_000, (512,))
alone = F.cross_entropy(hidden @ words, target)
(expected,) = torch.autograd.grad(alone, hidden)
alone = alone.item()

# %%
# %%ranks 2 --evidence vocabulary --out loss,off
import torch.distributed as dist

share = words.shape[1] // world_size
first = rank * share
logits = hidden.detach() @ words[:, first : first + share]
largest = logits.max(dim=1).values
dist.all_reduce(largest, op=dist.ReduceOp.MAX)
powers = (logits - largest[:, None]).exp()
total = powers.sum(dim=1)
dist.all_reduce(total)
here = (target >= first) & (target < first + share)  # whose word is one of mine
column = (target - first).clamp(0, share - 1)[:, None]
chosen = torch.where(here, logits.gather(1, column)[:, 0], 0.0)
dist.all_reduce(chosen)
loss = (total.log() + largest - chosen).mean().item()

slope = powers / total[:, None]  # softmax minus one, where the target is
slope.scatter_add_(1, column, -here[:, None].to(slope.dtype))
gradient = slope @ words[:, first : first + share].T / len(target)
dist.all_reduce(gradient)  # f of the column layer, as in section 5
off = (gradient - expected).abs().max().item()

# %%
small = sum(call.nbytes for call in vocabulary.ranks[0].calls[:3])
conclude(
    max(abs(one - alone) for one in loss) < 1e-4 and max(off) < 1e-5,
    f"Three numbers: the largest logit, the sum of the exponentials, the target's logit. These are "
    f"{small / 1e3:.1f} kB, where all logits are {512 * 32_000 * 4 / 1e6:.1f} MB. Loss and gradient "
    "are those of the unsplit layer (Shoeybi et al. 2019, section 3, on the output embedding).",
    f"the losses {loss} are not {alone}.",
)

# %% [markdown]
# ## 7. States: ZeRO and FSDP
#
# Data parallel training keeps everything p times: on each of p ranks are the same parameters, and
# after the all-reduce the same gradients and the same optimizer states. ZeRO (Rajbhandari et al.
# 2020) keeps them once, in p *shards*, in three stages: first the optimizer states, then the
# gradients too, then the parameters too.
#
# With Adam in mixed precision a parameter takes 2 bytes, its gradient 2, and its states 12: a float32
# copy and two moments.
#
# *Predict: how many of these 16 bytes are left on each of four ranks, in stages 1, 2 and 3?*


# %%
from functools import partial
from hpml.models import ResidualNetwork, VisionTransformer
from hpml.modules.m07_hybrid_parallelism.lecture import gathers, gathers_picture
from hpml.predict import zero
from hpml.ranks import launch
from hpml.trace import kinds_picture, repetition


def adam_step(stage):
    """On a rank: a training step in mixed precision with ZeRO's stage 0 (all whole), 1, 2 or 3."""
    from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard

    from hpml.modules.m07_hybrid_parallelism.lecture.sharded_adam import ShardedAdam

    if stage < 3:
        torch.set_default_dtype(torch.bfloat16)
        model = VisionTransformer(width=384, depth=4, heads=8, patch=8)
        optimizer = ShardedAdam(model.parameters(), stage)
    else:
        half = MixedPrecisionPolicy(param_dtype=torch.bfloat16)
        with torch.device("meta"):  # without memory: no rank ever has the whole model
            model = VisionTransformer(width=384, depth=4, heads=8, patch=8)
        for layer in (*model.blocks, model):
            fully_shard(layer, mp_policy=half)
        model.to_empty(device="cpu")
        for parameter in model.parameters():
            torch.nn.init.normal_(parameter.to_local(), std=0.02)
        optimizer = torch.optim.Adam(model.parameters())
    F.cross_entropy(model(images.bfloat16()).float(), labels).backward()
    optimizer.step()


stages = {k: launch(adam_step, 4, inputs=[k] * 4, live=True).ranks[0].live for k in range(4)}

# %% tags=["nbval-ignore-output"]
count = sum(p.numel() for p in VisionTransformer(width=384, depth=4, heads=8, patch=8).parameters())
kept = ("parameters", "gradients", "optimizer states")
held = {f"stage {k}": {kind: live.highest[kind] for kind in kept} for k, live in stages.items()}
formula = {f"stage {k}": zero.on_a_rank(k, count, ranks=4).total for k in stages}
title = "Each stage shards one kind more: four ranks, Adam"
display(kinds_picture.kinds_picture(held, formula, title=title))

# %% tags=["nbval-ignore-output"]
block = 2 * 12 * 384**2  # bytes of a block's parameters, in bfloat16
total = {name: sum(row.values()) for name, row in held.items()}
conclude(
    all(-0.02 < total[name] / formula[name] - 1 < 0.05 for name in list(total)[:3])
    and -0.02 * formula["stage 3"] < total["stage 3"] - formula["stage 3"] < 2 * block,
    f"16 bytes become 7, 5.5 and 4: measured {', '.join(f'{b / count:.1f}' for b in total.values())}. "
    f"In stage 3 one block's parameters ({block / 1e6:.1f} MB) come on top, where they are used. "
    "(`fully_shard` keeps the float32 copy as the parameters: 4, 4 and 8 bytes, the same 16.)",
    f"ranks held {total}, by the formula {formula}.",
)

# %% [markdown]
# ### Gathers, early and twice *(more)*
#
# In stage 3 no rank has all of a layer. PyTorch's `fully_shard` *gathers* a layer's parameters before
# it computes, and frees them afterwards.
#
# *Predict: how many times in a step is a layer gathered? And may a rank compute meanwhile?*


# %%
def shard(model, layers, freed=True):
    """On a rank: shard each of the layers, and then what else the model has."""
    from torch.distributed.fsdp import fully_shard

    from hpml.modules.m07_hybrid_parallelism.lecture.reduce_scatter import send_parts_only

    for layer in (*layers, model):
        fully_shard(layer, reshard_after_forward=freed)
    send_parts_only(model)


def sharded_steps(ahead):
    """On a rank: five steps of a transformer whose blocks are sharded."""
    import torch.distributed as dist

    from hpml.ranks import mark
    from hpml.modules.m07_hybrid_parallelism.lecture.gathers import (
        gather_ahead,
        watch_gathers,
        watch_layers,
    )

    model = VisionTransformer.of_size("small", depth=4)
    watch_layers(model.blocks)
    shard(model, model.blocks)
    watch_gathers(model.blocks)
    if ahead:
        gather_ahead(model.blocks)
    for _ in range(5):
        dist.barrier()
        mark("step begins")
        F.cross_entropy(model(images), labels).backward()
        mark("step ends")


sharded = {
    name: launch(sharded_steps, 2, inputs=[ahead] * 2, link="1gbit")
    for name, ahead in {"gathered when needed": False, "gathered ahead": True}.items()
}

# %% tags=["nbval-ignore-output"]
seen = {
    name: gathers.events(repetition.quickest(one, "step begins", "step ends").ranks[0])
    for name, one in sharded.items()
}
title = "Every block is gathered twice in a step: for forward, and for backward"
display(gathers_picture.draw(seen, title=title))

# %% tags=["nbval-ignore-output"]
early = {name: gathers.gathered_meanwhile(done) for name, done in seen.items()}
conclude(
    all(gathers.times_gathered(done) == {0: 2, 1: 2, 2: 2, 3: 2} for done in seen.values())
    and early["gathered when needed"] == 0
    and early["gathered ahead"] >= 3,
    "Twice. And a rank may compute: below, the next block is on its way while this one computes "
    f"({early['gathered ahead']} of 8 gathers began during another block's pass; above none did). On "
    "a GPU `fully_shard` gathers ahead by itself. On CPUs one has to ask for it, as "
    "`hpml.modules.m07_hybrid_parallelism.lecture.gathers.gather_ahead` does.",
    f"gathers during another block's pass: {early}.",
)

# %% [markdown]
# A block need not be freed after its forward pass. With `reshard_after_forward=False` it stays whole
# until `backward` has used it.
#
# *Predict: data parallelism sends n bytes. How many does `fully_shard` send, when it frees, and when
# it does not?*


# %%
def one_step(network, way):
    """On a rank: a step of a network, data parallel, or sharded with or without freeing."""
    from torch.nn.parallel import DistributedDataParallel

    if network == "transformer":
        model = VisionTransformer.of_size("small", depth=4)
        layers = model.blocks
    else:
        model = ResidualNetwork()
        layers = model.stages
    if way == "data parallel":
        model = DistributedDataParallel(model)
    else:
        shard(model, layers, freed=way == "freed")
    F.cross_entropy(model(images), labels).backward()


networks, ways = ("transformer", "residual network"), ("data parallel", "freed", "not freed")
steps = {
    (network, way): launch(partial(one_step, network, way), 2, link="1gbit", live=True).ranks[1]
    for network in networks
    for way in ways
}

# %% tags=["nbval-ignore-output"]
ratio = None
if not all(step.traffic for step in steps.values()):
    skip("bytes by the kernel's count", "there is no network to count on")
else:
    sent = {case: step.traffic.sent_bytes for case, step in steps.items()}
    ratio = {case: sent[case] / sent[case[0], "data parallel"] for case in sent}
    print("rank 1                             MB sent   of data parallel")
    for case in steps:
        print(f"{', '.join(case):32}{sent[case] / 1e6:10.2f}{ratio[case]:15.2f}")

# %% tags=["nbval-ignore-output"]
if ratio is not None:
    whole = {way: steps["transformer", way].live.at_peak["parameters"] / 1e6 for way in ways}
    conclude(
        all(abs(ratio[network, "freed"] - 1.5) < 0.08 for network in networks)
        and all(abs(ratio[network, "not freed"] - 1) < 0.06 for network in networks)
        and whole["freed"] < 0.6 * whole["not freed"],
        "By the kernel's count, freeing costs 3/2 of what data parallelism sends: a gather, another "
        "gather, a reduce-scatter, each half an all-reduce. Without freeing it is the same as data "
        "parallelism. But then, at its peak, a rank has all parameters of the transformer beside its "
        f"shard: {whole['not freed']:.1f} MB. With freeing it has {whole['freed']:.1f} MB, the shard "
        f"and one block, and with data parallelism {whole['data parallel']:.1f} MB.",
        f"of data parallelism's bytes there were {ratio}, and MB of parameters {whole}.",
    )

# %% [markdown]
# (Gloo's own `reduce_scatter_single` is an all-reduce inside. So `send_parts_only` puts an
# all-to-all in its place. NCCL needs none of that.)
#
# ### What stage 3 sends
#
# In stage 3 no rank has all of a layer. PyTorch's `fully_shard` *gathers* a layer's parameters before
# it computes, and frees them afterwards: once for forward, once more for `backward`. With the
# reduce-scatter of the gradients it sends 3/2 of what data parallelism sends. But the next layer can be
# on its way while a rank computes with this one.
#
# Your exercises: `zero1`, an optimizer that shards its states, and `fsdp`, a small `fully_shard` that
# gathers ahead.

# %% [markdown]
# ## 8. Meshes: data × tensor
#
# Two ways to split are two directions. So the ranks are laid out as a table, a *mesh*: say 2 × 2.
# Along a row, ranks share the matrices (tensor); along a column, the batch (data).
#
# ### A mesh in DTensor *(more)*
#
# PyTorch's DTensor does on such a mesh what section 5 did by hand.
#
# *Predict: which collectives does a step of one transformer block make along each dimension? A node
# has two ranks, and links between nodes are slow: should a row be a node, or a column?*


# %%
from hpml.modules.m07_hybrid_parallelism.lecture import mesh_picture
from hpml.ranks import launch


def mesh_step(ranks):
    """On a rank: a step of a block on the mesh [[., .], [., .]] of these ranks."""
    import torch.distributed as dist
    from torch.distributed.device_mesh import DeviceMesh
    from torch.distributed.tensor import Replicate
    from torch.distributed.tensor.parallel import ColwiseParallel, PrepareModuleInput
    from torch.distributed.tensor.parallel import RowwiseParallel, parallelize_module

    from hpml.models.vision_transformer import Block

    torch.manual_seed(0)  # the same weights and the same batch everywhere
    block, tokens = Block(192, heads=12), torch.randn(16, 64, 192)
    mesh = DeviceMesh("cpu", ranks, mesh_dim_names=("data", "tensor"))
    columns, rows = ColwiseParallel(), RowwiseParallel()
    plan = {f"attention.{name}": columns for name in ("query", "key", "value")}
    plan |= {"attention.out": rows, "mlp.up": columns, "mlp.down": rows}
    plan["attention"] = PrepareModuleInput(
        input_layouts=Replicate(), desired_input_layouts=Replicate()
    )
    parallelize_module(block, mesh["tensor"], plan, src_data_rank=None)
    mine = tokens.chunk(2)[mesh.get_local_rank("data")].requires_grad_()
    block(mine).square().mean().backward()
    gradients = [p.grad for p in block.parameters()]
    gradients = [g.to_local() if hasattr(g, "to_local") else g for g in gradients]
    flat = torch.cat([g.flatten() for g in gradients])
    dist.all_reduce(flat, group=mesh.get_group("data"))


layouts = {"a row in a node": [[0, 1], [2, 3]], "a column in a node": [[0, 2], [1, 3]]}
nodes = "nodes=2x2,intra=10gbit,inter=1gbit"
placed = {
    name: launch(mesh_step, 4, inputs=[mesh] * 4, link=nodes) for name, mesh in layouts.items()
}

# %% tags=["nbval-ignore-output"]
panels = {
    name: (one, mesh_picture.groups_of(layouts[name], ("data", "tensor")))
    for name, one in placed.items()
}
title = "Four collectives over tensor, one over data: the dashed line is where the slow link is"
display(mesh_picture.draw(panels, per_node=2, title=title))
no_link = next((one.no_link for one in placed.values() if one.no_link), "")
if no_link:
    skip("bytes between the nodes", no_link)

# %% tags=["nbval-ignore-output"]
row, column = (one.ranks[0].calls for one in placed.values())
conclude(
    [len(call.group) for call in row] == [2] * 5 == [len(call.group) for call in column],
    f"Each rank makes four all-reduces of activations over tensor ({row[0].nbytes / 1e6:.2f} MB each), "
    f"two forward and two backward, as in section 5, and one of its gradients over data "
    f"({row[-1].nbytes / 1e6:.2f} MB).",
    f"rank 0 made {[(call.operation, call.group) for call in row]}.",
)
if not no_link:
    up = {name: one.uplinks[0].sent_bytes / 1e6 for name, one in placed.items()}
    within, across = up.values()
    conclude(
        within < 0.75 * across,
        f"A row in a node: node 0 then sends {within:.2f} MB over its uplink, with a column in a node "
        f"{across:.2f} MB. And the four all-reduces are waited for one by one, where the gradients may "
        "travel while `backward` runs. So: tensor ranks inside a node, data ranks across.",
        f"over the uplink node 0 sent {up} MB.",
    )

# %% [markdown]
# `mesh_2d` is your exercise: these groups and collectives by hand.
#
# ### Which direction inside a node
#
# In a step, a block makes four all-reduces of activations along a row, and waits for each of them.
# Along a column it makes one, of gradients, which may travel while `backward` runs. So a row is a
# node: tensor ranks inside, where links are fast, data ranks across. In a mesh of three, pipeline
# stages stand between near nodes: they have little to send.

# %% [markdown]
# ## 9. Mesh-TensorFlow: name the dimensions *(more)*
#
# Mesh-TensorFlow (Shazeer et al. 2018) gives every dimension of a tensor a name. A *layout* says which
# named dimension is split over which dimension of the mesh, and nothing else is said: slices and
# all-reduces follow. Its example is two layers, y = relu(x w1) w2. Here is a step of it, in
# Mesh-TensorFlow: change it, if you like.
#
# *Predict: on a mesh of 2 rows and 2 columns, what has to be added up, over what, if batch is split
# over rows? If hidden is split over columns? If both?*


# %%
def step(mtf, x, w1, w2, batch, hidden, classes):
    """y, and the gradients of sum(y²) for w1 and w2."""
    h = mtf.relu(mtf.einsum([x, w1], output_shape=[batch, hidden]))
    y = mtf.einsum([h, w2], output_shape=[batch, classes])
    loss = mtf.reduce_sum(mtf.square(y))
    return [y, *mtf.gradients([loss], [w1, w2])]


# %%
from itertools import product
from hpml.frameworks import run as frameworks
from hpml.modules.m07_hybrid_parallelism.lecture import (
    layout_picture,
    layouts,
    mesh_picture,
    mesh_tensorflow_layouts,
)
from hpml.ranks import launch

three_layouts = {
    "batch over rows": {"batch": "rows"},
    "hidden over columns": {"hidden": "cols"},
    "both": {"batch": "rows", "hidden": "cols"},
}
sizes, mesh = mesh_tensorflow_layouts.SIZES, mesh_tensorflow_layouts.MESH
tensors = {
    name: {dimension: sizes[dimension] for dimension in dimensions}
    for name, dimensions in mesh_tensorflow_layouts.TENSORS.items()
}
title = "One network, three layouts: which ranks hold which part"
display(layout_picture.draw(three_layouts, tensors, mesh, title=title))


# %%
def by_rule(layout):
    """Bytes that a rank has in sums of the step, by dimension of the mesh."""
    first = layouts.all_reduces("x w1 -> h", tensors, mesh, layout)
    second = layouts.all_reduces("h w2 -> y", tensors, mesh, layout)
    del first["dx"]  # x needs no gradient
    sums = [*first.values(), *second.values()]
    return {over: sum(one.nbytes for one in sums if over in one.over) for over in mesh}


def in_dtensor(layout):
    """On a rank: the same step with DTensor, on the same mesh."""
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor import Replicate, Shard, distribute_tensor

    ranks = init_device_mesh("cpu", tuple(mesh.values()), mesh_dim_names=tuple(mesh))

    def placements(name):
        split = {layout[d]: k for k, d in enumerate(tensors[name]) if d in layout}
        return [Shard(split[over]) if over in split else Replicate() for over in mesh]

    given = mesh_tensorflow_layouts.values()
    x, w1, w2 = (
        distribute_tensor(torch.from_numpy(value), ranks, placements(name), src_data_rank=None)
        for name, value in given.items()
    )
    w1.requires_grad_(), w2.requires_grad_()
    h = (x @ w1).relu()
    y = (h @ w2).redistribute(placements=placements("y"))
    dy = (2 * y).detach()
    dw1, dw2 = torch.autograd.grad(y, (w1, w2), dy)
    got = [
        y,
        dw1.redistribute(placements=w1.placements),
        dw2.redistribute(placements=w2.placements),
    ]
    expected = mesh_tensorflow_layouts.alone(**given)
    parts = [
        distribute_tensor(torch.from_numpy(e), ranks, g.placements, src_data_rank=None)
        for e, g in zip(expected, got, strict=True)
    ]
    return max(
        (a.to_local() - b.to_local()).abs().max().item() for a, b in zip(got, parts, strict=True)
    )


traced = {
    name: launch(in_dtensor, 4, inputs=[layout] * 4) for name, layout in three_layouts.items()
}
along = mesh_picture.groups_of([[0, 1], [2, 3]], tuple(mesh))
placed = {
    name: {
        over: sum(
            c.nbytes for c in one.ranks[0].calls if mesh_picture.dimension_of(c, along) == over
        )
        for over in mesh
    }
    for name, one in traced.items()
}
rule = {name: by_rule(layout) for name, layout in three_layouts.items()}
lacking = frameworks.missing(mesh_tensorflow_layouts.SCRIPT)
if lacking:
    skip("the same in Mesh-TensorFlow itself", lacking)
    package = rule
else:
    told = mesh_tensorflow_layouts.told(step, three_layouts)
    package = {name: one["summed"] for name, one in told.items()}

print("bytes of a rank in all-reduces    by the rule   Mesh-TensorFlow   DTensor")
for name, over in product(three_layouts, mesh):
    counted = "-" if lacking else package[name][over]
    print(f"{name:22}over {over:5}{rule[name][over]:13}{counted:>18}{placed[name][over]:10}")

# %%
conclude(
    rule == package == placed and max(max(one.values) for one in traced.values()) < 1e-3,
    "Batch split: the gradients of w1 and w2 are sums over the batch, so they are added up over rows. "
    "That is data parallelism. Hidden split: y is a sum over hidden, so it is added up over columns. "
    "That is tensor parallelism. Both: both, and of smaller slices. Nobody wrote an all-reduce.",
    f"by the rule {rule}, Mesh-TensorFlow {package}, DTensor {placed}.",
)

# %% [markdown]
# Mesh-TensorFlow runs here in a process of its own, on four virtual devices. (The package is of 2022:
# it needs TensorFlow 1's mode, and stand-ins for three things that TensorFlow has removed.) DTensor
# says the same the other way round: a placement for each dimension of the mesh. `mesh_layout` is your
# exercise: the rule itself.

# %% [markdown]
# ## 10. Memory for time *(more)*
#
# A rank can hold less without any other rank. *Checkpointing* keeps only the input of each block, and
# computes the block again in `backward` (Chen et al. 2016, arXiv:1604.06174). *Offloading* moves out
# what is not needed for a while: activations until `backward` (vDNN, Rhu et al. 2016,
# arXiv:1602.08124), or the optimizer's states between steps. On a GPU "out" is the host's memory; here
# it is files, which the system still keeps in memory of its own, so they are quick.
#
# *Predict: which of the three saves most here? Which costs most time?*

# %% tags=["nbval-ignore-output"]
from hpml.modules.m07_hybrid_parallelism.lecture import memory_for_time

held = memory_for_time.measure()
for name, (nbytes, seconds) in held.items():
    print(f"{name:18}{nbytes / 1e6:6.0f} MB{seconds * 1e3:8.0f} ms")
by_bytes, by_time = ({name: one[k] for name, one in held.items()} for k in (0, 1))
saves, slowest = min(by_bytes, key=by_bytes.get), max(by_time, key=by_time.get)
title = f"Least memory: {saves}. Most time: {slowest}"
display(memory_for_time.picture(held, title=title))

# %% tags=["nbval-ignore-output"]
peak = {name: nbytes / 1e6 for name, (nbytes, _) in held.items()}
longer = {name: seconds / held["all kept"][1] - 1 for name, (_, seconds) in held.items()}
conclude(
    max(peak["checkpointed"], peak["activations out"], peak["states out"]) < 0.9 * peak["all kept"]
    and longer["checkpointed"] > 0,
    f"**Answer.** *{saves.capitalize()}* saves most, *{slowest}* takes longest. Of "
    f"{peak['all kept']:.0f} MB checkpointing leaves {peak['checkpointed']:.0f}, and takes "
    f"{longer['checkpointed']:.0%} longer: one forward pass more. (That is a third of forward and "
    "backward by operations. Adam's update, which is not repeated, is in the step too.) With "
    f"the activations in files it is {peak['activations out']:.0f} MB ({longer['activations out']:+.0%} "
    f"time), with Adam's states in files {peak['states out']:.0f} MB ({longer['states out']:+.0%}).",
    f"the peaks were {peak} MB, the times {longer} longer.",
)

# %% [markdown]
# ## 11. Experts: tokens that travel *(more)*
#
# A mixture of experts has many MLPs, one (or a few) for each token; a small layer, the *router*,
# chooses (Lepikhin et al. 2020, GShard, arXiv:2006.16668; Fedus et al. 2022, Switch Transformer,
# arXiv:2101.03961, section 2). Here rank r holds expert r. Tokens travel to their expert, and what it
# makes of them travels back: two all-to-alls.
#
# *Predict: four ranks, 2048 tokens each, of 1 kB. How many MB does a rank send, there and back? And
# what changes when the router prefers expert 0?*


# %%
from hpml.ranks import launch
from hpml.trace.launch_timeline import traffic_bars


def to_experts(preference):
    """On a rank: send tokens to their experts and back. Returns how many came to this expert."""
    import torch.distributed as dist

    rank, ranks = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(rank)
    tokens, scores = torch.randn(2048, 256), torch.randn(2048, ranks)
    scores[:, 0] += preference
    expert = scores.argmax(dim=1)
    order = expert.argsort()  # tokens of one expert beside each other
    leaving = expert.bincount(minlength=ranks)
    arriving = torch.empty_like(leaving)
    dist.all_to_all_single(arriving, leaving)  # first how many, then what
    leaving, arriving = leaving.tolist(), arriving.tolist()
    here = torch.empty(sum(arriving), 256)
    dist.all_to_all_single(here, tokens[order], arriving, leaving)
    made = here * (rank + 1)  # in place of an MLP
    back = torch.empty_like(tokens)
    dist.all_to_all_single(back, made, leaving, arriving)
    output = torch.empty_like(tokens)
    output[order] = back  # everybody back in its place
    assert torch.equal(output, tokens * (expert + 1)[:, None])
    return len(here)


routed = {
    "balanced": launch(to_experts, 4, inputs=[0.0] * 4, link="1gbit"),
    "expert 0 preferred": launch(to_experts, 4, inputs=[2.0] * 4, link="1gbit"),
}

# %% tags=["nbval-ignore-output"]
loads = {name: list(one.values) for name, one in routed.items()}
print("tokens at each expert:", loads)
no_link = next((one.no_link for one in routed.values() if one.no_link), "")
if no_link:
    skip("bytes by the kernel's count", no_link)
else:
    title = "With one expert preferred, one rank's link carries most of the tokens"
    display(traffic_bars({name: {"rank": one} for name, one in routed.items()}, title=title))

# %% tags=["nbval-ignore-output"]
if not no_link:
    got = {
        name: [rank.traffic.received_bytes / 1e6 for rank in one.ranks]
        for name, one in routed.items()
    }
    even, odd = got["balanced"], got["expert 0 preferred"]
    conclude(
        max(even) < 1.25 * min(even) and odd[0] > 1.5 * max(even),
        f"Balanced, a rank sends and receives about {sum(even) / 4:.1f} MB: three quarters of its tokens, "
        f"there and back. With expert 0 preferred, rank 0 receives {odd[0]:.1f} MB, and has "
        f"{loads['expert 0 preferred'][0]} of {4 * 2048} tokens to compute. All others wait for it.",
        f"ranks received {got} MB.",
    )

# %% [markdown]
# So routers are trained with a loss that rewards balance, and experts have a *capacity*: tokens above
# it are dropped, or go past the layer (Switch Transformer, section 2.2). `moe_all_to_all` is your
# exercise, with capacity and gradients.

# %% [markdown]
# ## 12. Long sequences: ring attention *(more)*
#
# Sequence parallelism (section 6) still gathers all tokens for attention. Ring attention (Liu et al.
# 2023, arXiv:2310.01889) does not: each rank keeps the queries of its tokens, and blocks of keys and
# values go round the ring. Softmax is summed up block by block, with the largest score so far.
#
# *Predict: is the result exactly that of full attention? How does a rank's memory for scores change?*

# %%
torch.manual_seed(0)
query, key, value = (torch.randn(4096, 64) for _ in range(3))
full = F.scaled_dot_product_attention(query, key, value)


# %%
from hpml.ranks import launch


def attention(in_a_ring):
    """On a rank: attention of its quarter of the queries to all keys. Returns its largest error."""
    import torch.distributed as dist

    rank, ranks = dist.get_rank(), dist.get_world_size()
    q, k, v = (whole.chunk(ranks)[rank].clone() for whole in (query, key, value))
    if not in_a_ring:
        keys, values = (torch.empty(4096, 64) for _ in range(2))
        dist.all_gather_single(keys, k)
        dist.all_gather_single(values, v)
        output = (q @ keys.T / 8).softmax(dim=1) @ values
    else:
        largest = torch.full((len(q), 1), -torch.inf)
        total, output = torch.zeros(len(q), 1), torch.zeros_like(q)
        for step in range(ranks):
            scores = q @ k.T / 8
            new = torch.maximum(largest, scores.amax(dim=1, keepdim=True))
            scores.sub_(new).exp_()
            shrink = (largest - new).exp()  # what was summed up with a smaller maximum
            total = total * shrink + scores.sum(dim=1, keepdim=True)
            output = output * shrink + scores @ v
            largest = new
            if step < ranks - 1:
                block = torch.stack([k, v])
                arriving = torch.empty_like(block)
                sending = dist.isend(block, (rank + 1) % ranks)
                dist.recv(arriving, (rank - 1) % ranks)
                sending.wait()
                k, v = arriving
        output = output / total
    return (output - full.chunk(ranks)[rank]).abs().max().item()


ring, gathered = (launch(attention, 4, inputs=[way] * 4, live=True) for way in (True, False))

# %% tags=["nbval-ignore-output"]
apart = max(ring.values)
small, large = (max(rank.live.peak for rank in one.ranks) / 1e6 for one in (ring, gathered))
moved = sum(call.nbytes for call in ring.ranks[0].calls if call.operation == "send") / 1e6
conclude(
    apart < 1e-4 and small < 0.6 * large,
    f"It is the same, up to rounding ({apart:.0e}). At its peak a rank holds {small:.0f} MB of tensors, "
    f"in place of {large:.0f}: scores of one block at a time, where with gathered keys it has those of "
    f"all. It sends {moved:.2f} MB in three steps round the ring, as much as an all-gather would.",
    f"results are {apart} apart, the peaks {small:.1f} and {large:.1f} MB.",
)

# %% [markdown]
# The next block can travel while the rank computes with this one: then sending costs no time, as long
# as a block takes longer to compute than to send (section 3 of the paper).

# %% [markdown]
# ## 13. Which split, when
#
# Together, the formulas of this lecture price a layout. So try all layouts, drop those that do not fit,
# take the quickest.
#
# *Predict: section 1's model on two ranks with 350 MB each and a link of 1 Gbit/s. Data, ZeRO,
# tensor, or pipeline? And with 100 Gbit/s?*

# %% tags=["nbval-ignore-output"]
from itertools import product
from hpml.modules.m07_hybrid_parallelism.lecture import layout_grid, published_layouts
from hpml.predict import which_split

model = which_split.Transformer(layers=8, width=512, tokens=8 * 16, sequence=16)
speed = which_split.measured_flops()


def here(rate):
    """Two ranks of this machine, each with 350 MB, and a link of `rate` bit/s."""
    return which_split.Cluster(2, 2, 350e6, speed, rate / 8, rate / 8, number=4)


print("                         MB on a rank   ms a step at 1 Gbit/s   at 100 Gbit/s")
ways = {}
for rate in (1e9, 1e11):
    for one in which_split.layouts(model, here(rate)):
        ways.setdefault((str(one), one.micro_batches), []).append(one)
for (name, micro_batches), (slow, fast) in ways.items():
    if micro_batches in (1, 8) and (micro_batches == 1 or "pipeline" in name):
        fits = "  " if which_split.fitting([slow], 350e6) else " *"
        print(
            f"{name + f', m = {micro_batches}':26}{slow.nbytes / 1e6:9.0f}{fits}"
            f"{slow.seconds * 1e3:22.0f}{fast.seconds * 1e3:16.0f}"
        )
print("* does not fit")

# %% tags=["nbval-ignore-output"]
chosen = {rate: which_split.choose(model, here(rate)) for rate in (1e9, 1e11)}
whole = next(which_split.layouts(model, here(1e9)))
conclude(
    not which_split.fitting([whole], 350e6) and chosen[1e9].pipeline * chosen[1e9].tensor == 2,
    f"Plain data parallelism does not fit, as section 1 showed. By the formulas the quickest that fits is "
    f"{chosen[1e9]} at 1 Gbit/s, and {chosen[1e11]} at 100 Gbit/s. With 128 tokens the activations are "
    f"small and 25 million gradients are not. A core of this machine reached {speed / 1e9:.0f} GFLOP/s.",
    f"the formulas chose {chosen[1e9]} at {speed / 1e9:.0f} GFLOP/s.",
)

# %% [markdown]
# Now larger ones. A node has eight GPUs of 80 GB with fast links inside, and each has a link to other
# nodes: 400 Gbit/s, or less. (What the formulas assume stands below.) Which models change their split
# when the network is slower?


# %%
def gpus(ranks, gbit):
    """Nodes of eight GPUs, each with a link of so many Gbit/s to other nodes."""
    return which_split.Cluster(ranks, 8, 80e9, 400e12, inside=450e9, between=gbit * 1e9 / 8)


transformers = {
    "1.5 billion": which_split.Transformer(48, 1600, tokens=2**19, sequence=1024),
    "7 billion": which_split.Transformer(36, 4096, tokens=2**21, sequence=2048),
    "64 billion": which_split.Transformer(80, 8192, tokens=2**22, sequence=4096),
    "174 billion": which_split.Transformer(96, 12288, tokens=2**22, sequence=2048),
}
grid = {
    (name, ranks, gbit): layout_grid.cell(one, gpus(ranks, gbit))
    for ranks, (name, one), gbit in product((64, 512), transformers.items(), (400, 100, 25, 10))
}
rules = layout_grid.rules(grid)
title = f"The slower the network, the more stages: {len(rules.changes)} of {rules.rows} change their split"
publish_figure(
    "which split, when",
    layout_grid.picture(grid, title=title),
    "The quickest layout that fits, by formula: data × pipeline (p) × tensor (t) ranks, the stage of "
    "ZeRO, and the share of a step in which a GPU waits. By model (parameters) and link between nodes.",
)

# %%
conclude(
    rules.held and rules.alone < rules.could and rules.tensor < 8,
    f"These: {', '.join(rules.changes)} GPUs. What the grid says: (1) data parallelism alone is the "
    f"quickest in {rules.alone} of the {rules.could} cells where it fits. It loses where a GPU has few "
    "tokens, which hide little, or the links are slow. (2) ZeRO-3 needs a network that hides its "
    f"gathers: it is chosen at {rules.stage_3} Gbit/s and more. (3) Slower links never take stages "
    "away, they add some: activations at a cut are the fewest bytes. (4) Tensor stays inside a node, "
    f"with at most {rules.tensor} of 8 ranks: stages share what does not fit.",
    f"what the grid says: {rules}.",
)

# %% [markdown]
# Formulas see no latency, no small operators, no slow node. Module 08 fits such predictions to real
# clusters.
#
# ### What the formulas assume *(more)*
#
# Bytes of states, the bubble, all-reduces and who waits for them: above, each formula stood beside a
# measurement. They assume Adam in mixed precision, fused attention, nothing recomputed, no sequence
# parallelism. An all-reduce that leaves a node has two levels (module 05). A tenth of the memory is
# kept for what is no tensor of ours: the context, NCCL's buffers, gaps.
#
# 450 GB/s inside a node and 400 Gbit/s between nodes are those of NVIDIA's [DGX
# H100](https://www.nvidia.com/en-us/data-center/dgx-h100/). We let a GPU reach 400 TFLOP/s, 40 % of
# its peak.
#
# ### The batch counts, too *(more)*
#
# *Predict: the 7 billion on 64 GPUs with the fast links, and 1/32 or 1/64 of the tokens in a step. More
# ranks for data, or fewer?*

# %%
from dataclasses import replace

print("tokens in a step   sequences   split                waiting")
by_batch = {}
for tokens in (2**21, 2**16, 2**15):
    one = replace(transformers["7 billion"], tokens=tokens)
    by_batch[tokens] = way = which_split.choose(one, gpus(64, 400))
    share = way.waits / way.seconds
    print(f"{tokens:16,}{tokens // one.sequence:12}   {way!s:20}{share:8.0%}")

# %%
large, middle, small = by_batch.values()
conclude(
    large.tensor == 1 < middle.tensor < small.tensor,
    f"Fewer. There are as many gradients as before, and less to compute while they travel: from {large} "
    f"it goes to {middle} and {small}. And a rank for data needs at least one sequence.",
    f"with ever smaller batches: {large}, {middle}, {small}.",
)

# %% [markdown]
# ### Beside what others chose *(more)*
#
# The same search, on models, GPUs and batches that were published with their layouts (A100: 156
# TFLOP/s, half of its peak; each run's own recomputation, sequence parallelism and stages of ZeRO).
#
# *Predict: how many of 17 layouts does it find? And where it finds another one, how much slower is
# the published one by the formulas?*

# %%
rows = [published_layouts.beside(run) for run in published_layouts.published()]
print(published_layouts.table(rows))

# %%
same = sum(row.same for row in rows)
worst = max((row for row in rows if row.ours), key=lambda row: row.slower)
without = [row.run for row in rows if not row.ours]
missed = [row for row in rows if row.ours and not row.same]
wider = sum(one.theirs.of_a_copy > one.ours.of_a_copy for one in missed)
conclude(
    same >= 8 and worst.slower < 0.1 and len(without) == 2 and wider > len(missed) / 2,
    f"{same} of {len(rows)}. The others are slower by at most {worst.slower:.0%} ({worst.run.name}), "
    f"which is less than these formulas know. {wider} of the {len(missed)} share a copy among more ranks "
    "than the formulas do: large vocabularies and float32 gradients take memory that is not in them. "
    f"And for {without[0].name} nothing fits here: by 1F1B its first stage keeps the activations of 16 "
    "sequences. It had a layer less, and a schedule that keeps fewer.",
    f"the same were {same} of {len(rows)}, and {worst.run.name} was {worst.slower:.0%} slower.",
)

# %% [markdown]
# Sources: Narayanan et al. 2021, table 1 (the first ten rows); Korthikanti et al. 2022, table 3; Le
# Scao et al. 2022 (BLOOM), section 3.4; Grattafiori et al. 2024 (Llama 3), table 4. What each did is in
# `published_layouts.csv`, beside this lecture's code.

# %% [markdown]
# ## 14. On the cluster *(more)*
#
# `hpml.train` splits a vision transformer in each of these ways, and its losses are those of data
# parallel training: `--shard zero1` or `--shard fsdp`, `--tensor N`, `--pipeline N`, or several of
# them as a mesh. `slurm/07_fsdp.slurm`, `07_tensor.slurm` and `07_pipeline.slurm` submit it, and each has
# a version for GPUs.
#
# ```
# sbatch slurm/07_fsdp.slurm --shard zero1
# ./hpml bench shard
# ```
#
# Here are two ranks of it, each way for four steps. A step is 32 images of both ranks together.
#
# *Predict: which way holds least at its peak? Which has the shortest step at 1 Gbit/s? And do they
# come to the same loss?*

# %% tags=["nbval-ignore-output"]
from hpml.bench import shard
from hpml.errors import UserError

two_ranks = [way for way in shard.WAYS if not way.exercise and way.least == 2]
runs = {}
try:
    for way in two_ranks:
        gigabit = shard.launched(way, 2, "1gbit")
        in_memory = shard.launched(way, 2, None, count_memory=True)
        step_ms = 1e3 * shard.BATCH / shard.speed(gigabit)
        runs[way.name] = (shard.peak(in_memory), step_ms, shard.loss(gigabit))
except UserError as why:
    runs = None
    skip("one step in each way", str(why))
else:
    print("               MB at a rank's peak   ms a step   loss after 4 steps")
    for name, (peak_mb, step_ms, loss_then) in runs.items():
        print(f"{name:15}{peak_mb:20.0f}{step_ms:12.0f}{loss_then:21.4f}")

# %% tags=["nbval-ignore-output"]
if runs:
    peaks, times, losses = ({name: one[k] for name, one in runs.items()} for k in range(3))
    least, quickest = min(peaks, key=peaks.get), min(times, key=times.get)
    apart = max(losses.values()) / min(losses.values()) - 1
    seen = (
        f"{least} holds least, {peaks[least]:.0f} MB, where data parallel holds "
        f"{peaks['data parallel']:.0f}; {quickest} has the shortest step, {times[quickest]:.0f} ms; "
        f"losses are at most {apart:.1e} of themselves apart"
    )
    conclude(
        apart < shard.SAME and peaks[least] < peaks["data parallel"],
        f"**Answer.** With two ranks {seen}. A split changes who holds what, and not what is learnt. "
        "Which one is the quickest on 64 GPUs is the question of section 13.",
        f"with two ranks {seen}.",
    )

# %% [markdown]
# ### Names that you will meet *(more)*
#
# - **DeepSpeed** is the library of ZeRO's authors. Its stages 1 to 3 are those of section 7, and its
#   pipeline is that of section 4.
# - **HSDP**, hybrid sharding: FSDP inside a node, copies of it across. It is section 8's mesh with
#   shards in place of tensors: gathers use the fast links, and a rank holds more. `fully_shard` takes
#   such a mesh of two dimensions.
# - **Sequence parallelism** is section 6, **context parallelism** section 12: a sequence that is too
#   long for one rank is cut, and keys travel.
# - **Expert parallelism** is section 11. On many nodes its all-to-all is what waits, so a token may
#   choose experts on few nodes only (DeepSeek-AI 2024, arXiv:2412.19437, section 2.1.2).
# - **MFU**, model FLOP/s utilization: 6 × parameters × tokens/s, over the peak FLOP/s of all GPUs
#   (Chowdhery et al. 2022, PaLM, arXiv:2204.02311, appendix B). What is recomputed does not count.
#   Section 13 assumed 40 %; Llama 3 had 38 to 43 % (its table 4).
# - **Zero-bubble schedules** hide a part of what is not hidden here. PyTorch's
#   `ScheduleZBVZeroBubble` and `ScheduleDualPipeV` fill a bubble with gradients of weights.
#   **Asynchronous tensor parallelism** cuts a product into pieces.
# - **MLPerf Training** has rules for the time until a given quality. So it counts what images/s leave
#   out: a batch that is too large for the accuracy.

# %% [markdown]
# ## What to take home
#
# - Split first what is largest: optimizer states and gradients (ZeRO), then parameters (FSDP), then
#   the layers (pipeline) or the matrices (tensor).
# - Each split has its price in bytes, and the question is who waits for them: gradients and gathers
#   can travel while a rank computes. A tensor's all-reduces and a pipeline's bubble are not hidden
#   here.
# - So lay the ranks out as a mesh that follows the network: tensor inside a node, data across.
#
# ### Where to read on *(more)*
#
# - Shoeybi et al. 2019, *Megatron-LM*, arXiv:1909.08053, section 3: the two splits.
# - Huang et al. 2019, *GPipe*, arXiv:1811.06965, section 2; Narayanan et al. 2021, *Efficient
#   Large-Scale Language Model Training on GPU Clusters*, arXiv:2104.04473, sections 2 and 3: 1F1B, and
#   pipeline, tensor and data parallelism together.
# - Korthikanti et al. 2022, *Reducing Activation Recomputation in Large Transformer Models*,
#   arXiv:2205.05198, section 4: bytes of activations, and sequence parallelism.
# - Rajbhandari et al. 2020, *ZeRO*, arXiv:1910.02054, sections 5 and 7; Zhao et al. 2023, *PyTorch
#   FSDP*, arXiv:2304.11277, sections 3 and 4.
# - Shazeer et al. 2018, *Mesh-TensorFlow*, arXiv:1811.02084, sections 3 to 5.

# %% [markdown]
# ## Where next
#
# The [exercises](../exercises/07_hybrid_parallelism.ipynb) of this module: first `tensor_parallel`, `zero1`; for the evening `split_layers`, `gpipe`, `one_f_one_b`, `fsdp`, `mesh_2d`, `mesh_layout`, `moe_all_to_all`.
