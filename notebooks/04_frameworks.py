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
# # 04 Inside the frameworks
#
# A line of Python becomes a step of training. What does a framework do in between: when does it
# know the whole computation, where do derivatives come from, what runs on the processor, and where
# does communication get in? Look into each part once, and no framework is a black box any more.
#
# Before most cells there is a question in italics. Write your answer down, then run the cell.
# Sections marked *(more)* are for the evening: fold them away, and come back to them.

# %%
# %load_ext hpml
# %matplotlib inline
from IPython.display import display

from hpml.publish import conclude, publish, publish_figure

# %% [markdown]
# ## 1. The same function, three ways

# %% [markdown]
# ## 2. A derivative is a walk back over the graph
#
# Training needs the derivative of one number, the loss, by each of the weights. Nobody writes these
# derivatives down. *Reverse-mode automatic differentiation* (Linnainmaa 1970) takes two things: a
# *tape* of the operations that ran, and for each kind of operation its *vjp* (vector-Jacobian
# product), which turns the derivative of the loss by the output into those by the inputs.


# %%
class Value:
    """A number or a tensor, and its adjoint: the derivative of the loss by it."""

    def __init__(self, data):
        self.data, self.adjoint = data, 0.0

    def __add__(self, other):
        return apply("add", self, other)

    def __mul__(self, other):
        return apply("mul", self, other)


PRIMITIVES = {  # name: (what runs, its vjp)
    "add": (lambda a, b: a + b, lambda g, out, a, b: (g, g)),
    "mul": (lambda a, b: a * b, lambda g, out, a, b: (g * b, g * a)),
}


# %% [markdown]
# In a vjp `g` is the adjoint of the output. `apply` runs an operation and records it; `backward`
# walks over the tape from its end.


# %%
tape = []


def apply(name, *inputs):
    output = Value(PRIMITIVES[name][0](*[value.data for value in inputs]))
    tape.append((output, name, inputs))
    return output


def backward(loss):
    loss.adjoint = 1.0
    for output, name, inputs in reversed(tape):
        adjoints = PRIMITIVES[name][1](output.adjoint, output.data, *[v.data for v in inputs])
        for value, adjoint in zip(inputs, adjoints, strict=True):
            value.adjoint = value.adjoint + adjoint


# %% [markdown]
# *Predict: `a` is 2, `b` is 3, `p = a * b`, `q = p + a`, and the loss is `p * q`. What is the adjoint
# of `p`, which is used twice?*

# %%
from hpml.trace.tape_picture import tape_picture

tape.clear()
a, b = Value(2.0), Value(3.0)
p = a * b
q = p + a
loss = p * q
backward(loss)
named = {"a": a, "b": b, "p": p, "q": q, "loss": loss}
publish_figure(
    "a graph with adjoints",
    tape_picture(tape, named, PRIMITIVES, title="Values flow down; adjoints flow up, and add up"),
    "The operations of p * q. Beside each arrow: what its use adds to the adjoint above it.",
)
conclude(
    (p.adjoint, a.adjoint, b.adjoint) == (14.0, 48.0, 28.0),
    f"**Answer.** {p.adjoint:g}: {q.data:g} by `p * q` and {q.adjoint:g} by `p + a`. What is "
    "used twice gets an adjoint from each use, and they **add up**.",
    f"p got {p.adjoint}, a {a.adjoint}, b {b.adjoint}: run the cells above again, in order.",
)

# %% [markdown]
# When the walk comes to an operation, all that used its output have been there: they are later on
# the tape. So its adjoint is complete.
#
# Does it work for a whole network? The course's needs nine more operations (convolution, batch
# normalisation, cross entropy, …). The library has their vjps, written by hand; `apply` and
# `backward` stay as they are.
#
# *Predict: how far are the gradients from PyTorch's?*

# %% tags=["nbval-ignore-output"]
from hpml.frameworks import network_vjps

reference = network_vjps.batch()  # float64, with torch's gradients
PRIMITIVES |= network_vjps.primitives(reference.labels)
leaves = {name: Value(tensor) for name, tensor in reference.parameters.items()}
tape.clear()
backward(network_vjps.network(apply, leaves, Value(reference.images)))
adjoints = {name: leaf.adjoint for name, leaf in leaves.items()}
conclude(*network_vjps.finding(adjoints, reference.gradients, len(tape)))

# %% [markdown]
# *Forward mode* needs no tape: each number carries its derivative by **one** input along.

# %%
from hpml.frameworks import counted


class Dual:
    """A number and its derivative by one input."""

    def __init__(self, data, tangent=0.0):
        self.data, self.tangent = data, tangent

    def __add__(self, other):
        return Dual(self.data + other.data, self.tangent + other.tangent)

    def __mul__(self, other):
        tangent = self.tangent * other.data + self.data * other.tangent
        return Dual(self.data * other.data, tangent)


# %% [markdown]
# *Predict: a function has 64 inputs and one output. Count multiplications: how many times those of
# the function does each mode take, for all 64 derivatives? And with one input and 64 outputs?*


# %%
def forward_mode(function, point):
    """[output][input]: a pass for each input."""
    passes = []
    for i in range(len(point)):
        seeded = [Dual(x, float(i == j)) for j, x in enumerate(point)]
        passes.append([y.tangent for y in function(seeded)])
    return list(zip(*passes, strict=True))


def reverse_mode(function, point):
    """[output][input]: a walk back for each output."""
    tape.clear()
    inputs, rows = [*map(Value, point)], []
    for output in function(inputs):
        for result, _, used in tape:
            for value in (result, *used):
                value.adjoint = 0.0
        backward(output)
        rows.append([value.adjoint for value in inputs])
    return rows


# %%
sizes = (1, 1), (8, 1), (64, 1), (1, 8), (1, 64)
costs = [counted.cost(n, m, forward_mode, reverse_mode) for n, m in sizes]
print(counted.table(costs))
conclude(*counted.finding(costs, sum(g.numel() for g in reference.gradients.values())))

# %% [markdown]
# The 3 is no accident: with additions and multiplications alone it is always 3 (Griewank 2012, Who
# Invented the Reverse Mode of Differentiation?, Documenta Mathematica, ISMP volume). For programs in
# general it is less than 6, usually 2 to 3
# ([Baydin et al. 2018](https://jmlr.org/papers/v18/17-468.html)). The price is memory: the tape
# keeps every value until the walk comes by (section 3).
#
# PyTorch has no tape: each result refers to the operation that made it, and backward finds an order
# by itself. It adds up over broadcast dimensions, and stays out of what needs no gradient. That is
# the exercise on this section, `autodiff`.

# %% [markdown]
# ## 3. What is alive when *(more)*

# %% [markdown]
# ## 4. What an optimizer does, and what it remembers
#
# Backward has left a gradient in each parameter. The optimizer makes a step of it. Six rules go down
# the same valley, from the same point, each with the best of nine learning rates:
#
# *f*(w₁, w₂) = ½ (w₁ − 6)² + 45 (w₂ − 2)²
#
# *Predict: which takes the fewest steps to the bottom, which the most? Which go past it?*

# %% tags=["nbval-ignore-output"]
from hpml.frameworks import valley
from hpml.frameworks.valley_picture import step_through_paths

ways_down = valley.paths()
step_through_paths(ways_down, title="What remembers is at the bottom sooner, and goes past it")
conclude(*valley.fewest(ways_down))
conclude(*valley.overshooting(ways_down))

# %% [markdown]
# Remembering costs memory: a *state* of the optimizer, which lives from step to step.
#
# *Predict: how many bytes for each parameter does momentum keep, in float32? And Adam?*

# %%
from hpml.frameworks import optimizer_state

states = optimizer_state.counted()
publish_figure(
    "what optimizers remember",
    optimizer_state.state_picture(states, title="Momentum keeps one number more, Adam two"),
    "Counted in the optimizers' states on the course's network, after one step; with parameters "
    "and gradients beside them.",
)
conclude(*optimizer_state.finding(states))

# %% [markdown]
# Every rank of data parallel training holds all of this. ZeRO shares it out: module 07, section 7.
# (`optimizers` is your exercise.)
#
# ### The six rules *(more)*
#
# *g* is the gradient, *t* counts the steps of this parameter from 1, *λ* is the weight decay. Every
# rule but AdamW begins with *g* ← *g* + *λw*.
#
# | rule | it remembers | step |
# |---|---|---|
# | SGD | nothing | *w* ← *w* − lr *g* |
# | momentum (Polyak 1964) | *b* ← *μb* + *g* | *w* ← *w* − lr *b* |
# | Nesterov (Sutskever et al. 2013) | *b* ← *μb* + *g* | *w* ← *w* − lr (*g* + *μb*) |
# | Adam (Kingma and Ba 2015) | *m* ← *β₁m* + (1 − *β₁*) *g*; *v* ← *β₂v* + (1 − *β₂*) *g*² | *w* ← *w* − lr *m̂* / (√*v̂* + *ε*) |
# | AdamW (Loshchilov and Hutter 2019) | the same | *w* ← (1 − lr *λ*) *w*, then Adam's |
# | LARS (You et al. 2017) | *b* ← *μb* + lr *ηg* ‖*w*‖ / (‖*∇*‖ + *λ*‖*w*‖) | *w* ← *w* − *b* |
#
# *m* and *v* begin at 0, so the first ones are too small. The hats divide that out: *m̂* = *m* / (1 −
# *β₁ᵗ*), *v̂* = *v* / (1 − *β₂ᵗ*). In LARS ‖*∇*‖ is the norm of the gradient without the decay.
#
# ### Nesterov's momentum, as PyTorch has it *(more)*
#
# Sutskever et al. (2013, section 2) take the gradient where the momentum will lead: *v* ← *μv* −
# lr *∇f*(*θ* + *μv*), then *θ* ← *θ* + *v*. PyTorch's form, in the table above, needs the gradient
# only where the parameter is. Its parameter stands for *θ* + *μv*.
#
# *Predict: do both go the same way? Still so when the rate is cut to a fifth at step 10?*

# %% tags=["nbval-ignore-output"]
from hpml.frameworks import nesterov_forms

constant = nesterov_forms.apart([0.01] * 60)
cut = nesterov_forms.apart([0.01] * 10 + [0.002] * 50)
conclude(*nesterov_forms.finding(constant, cut))

# %% [markdown]
# ### Weight decay, in the gradient or beside it *(more)*
#
# For SGD it is the same whether *λw* is added to the gradient (L2 regularisation) or the weights are
# made smaller by the factor 1 − lr *λ* (weight decay). For Adam it is not (Loshchilov and Hutter
# 2019, *Decoupled weight decay regularization*).
#
# *Predict: three weights of 1. Their gradients change sign in each step, and are 0.1, 1 and 10 large.
# Only the decay moves them for long. Which weight is decayed most by Adam, and by AdamW?*

# %%
from hpml.frameworks import decoupled_decay

decayed = decoupled_decay.decays()
publish_figure(
    "decay in the gradient and beside it",
    decoupled_decay.decay_picture(
        decayed, title="Adam's decay depends on the size of the gradient, AdamW's does not"
    ),
    "Three weights under gradients that change sign in each step; learning rate 0.01, decay 0.5.",
)
conclude(*decoupled_decay.finding(decayed))

# %% [markdown]
# ### A rate for each layer *(more)*
#
# Many ranks make a large batch, and the linear rule asks for a large rate (module 01, section 4).
# Then training diverges where one layer's step is too large for its weights. LARS measures this in
# each layer, by ‖*w*‖/‖*g*‖ (You, Gitman and Ginsburg 2017, *Large batch training of convolutional
# networks*). LAMB does the same with Adam's step (You et al. 2020, *Large batch optimization for
# deep learning*).
#
# *Predict: by which factor does ‖w‖/‖g‖ differ between the layers of the course's network?*

# %% tags=["nbval-ignore-output"]
import torch

from hpml.data import batches, load, normalize
from hpml.frameworks import lars
from hpml.models.residual import ResidualNetwork

torch.manual_seed(0)
pixels, labels = next(batches(load().train, range(64), batch_size=64))
ratios = lars.layer_ratios(ResidualNetwork(), normalize(pixels), labels)
print("\n".join(f"{layer:30}{each:6.1f}" for layer, each in ratios.items()))
conclude(*lars.finding(ratios))

# %% [markdown]
# ## 5. Where the time goes below Python

# %% [markdown]
# ## 6. Where communication gets in

# %% [markdown]
# ## 7. One bit for each gradient *(more)*

# %% [markdown]
# ## 8. The frameworks on one map
#
# The frameworks of the original slides beside today's. *Developed* means here: a release in the two
# years before November 2026, when the table was made. Each row was looked up.
#
# *Predict: what share of them is still developed? Which ones that have operators and derivatives of
# their own?*

# %%
from hpml.predict.frameworks import frameworks, still_developed
from hpml.predict.frameworks_picture import timeline_picture

every = frameworks()
left = sum(one.developed for one in every)
publish_figure(
    "frameworks over time",
    timeline_picture(every, title=f"{left} of {len(every)} frameworks are still developed"),
    "From the first release to the end or to today; beside each bar what it splits, over what. An "
    "arrow names the framework that took up its code or its makers.",
)
conclude(*still_developed(every))

# %% [markdown]
# Operators of one's own need fast kernels for each new processor (lecture 02, section 5). What is
# added to a framework needs only a place to step in: a hook, an optimizer, a layer.
#
# ### Each one, and where communication gets in *(more)*
#
# *Predict: data parallel training splits the data. Which frameworks split more, the older or
# today's?*

# %%
from IPython.display import Markdown

from hpml.predict import frameworks as framework_table

display(Markdown(framework_table.table()))
conclude(*framework_table.more_than_data(every))

# %% [markdown]
# ### Where the ideas of the gone ones run *(more)*
#
# *Predict: which framework that ended left nothing behind?*

# %%
from hpml.predict import framework_ideas

ideas = framework_ideas.ideas()
display(Markdown(framework_ideas.table(ideas, here="04_frameworks")))
conclude(*framework_ideas.nothing_lost(ideas, every))

# %% [markdown]
# ### Where the rows are from *(more)*
#
# The table is `src/hpml/predict/frameworks.csv`. A row that you can correct is a small change.

# %%
display(Markdown(framework_table.sources()))

# %% [markdown]
# ## 9. `tf.data` done right *(more)*

# %% [markdown]
# ## 10. From one framework to another: ONNX *(more)*
#
# ONNX is a file format for a graph: operators from one agreed list, weights, and the types of inputs
# and outputs ([specification](https://github.com/onnx/onnx/blob/main/docs/IR.md)). A framework
# writes the file. A *runtime*, which knows nothing of the framework, runs it.
#
# We train a narrow version of the course's network for six steps and export it. The size of the
# batch stays open, so it gets a name.
#
# *Predict: the network has 7 convolutions and 6 batch normalisations. How many are in the file?*

# %%
import torch

from hpml.errors import UserError
from hpml.frameworks import onnx_export, onnx_speed
from hpml.publish import skip

trained, trainer = onnx_export.briefly_trained()
example, open_batch = torch.zeros(2, 3, 32, 32), {0: torch.export.Dim("batch")}
names = {"input_names": ["images"], "output_names": ["logits"]}
in_onnx = None
try:
    with onnx_export.quiet():  # else the exporter prints how far it has come
        program = torch.onnx.export(
            trained, (example,), dynamo=True, dynamic_shapes=(open_batch,), **names
        )
    in_onnx = program.model_proto
except UserError as why:
    skip("a network handed over", str(why))

# %%
if in_onnx:
    print(onnx_export.operators(in_onnx))
    conclude(*onnx_export.folded(trained, in_onnx))
    publish_figure(
        "the beginning of the network in ONNX",
        onnx_export.first_picture(in_onnx, "Add", "No layers any more: operators and weights"),
        "From the images to the end of the first stage. W, B, scale: an operator's weights, with "
        "their shapes. The network's convolutions have no bias (B) in PyTorch.",
    )

# %% [markdown]
# ### The same answers? *(more)*
#
# *Predict: ONNX Runtime gets the file and 500 images, in batches of other sizes. Are its answers
# equal to PyTorch's in every bit?*

# %% tags=["nbval-ignore-output"]
if in_onnx:
    running = onnx_export.session(in_onnx)
    unseen = onnx_export.unseen_images(500)
    conclude(*onnx_export.answers(trained, running, unseen, [1, 99, 400]).finding)

# %% [markdown]
# *Predict: which is faster with one image, and with 64? By how much?* Each gets one thread, and they
# take turns.

# %% tags=["nbval-ignore-output"]
if in_onnx:
    forward_speeds = onnx_speed.compare(trained, running)
    print(forward_speeds)
    publish_figure(
        "PyTorch and ONNX Runtime, forward",
        onnx_speed.speeds_picture(forward_speeds, "The same network, the same answers"),
        "Images per second of processor time, forward only, one thread, median of the rounds.",
    )
    conclude(*forward_speeds.finding)

# %% [markdown]
# ONNX Runtime rewrites the graph when it loads it: it fuses operators and chooses
# [layouts](https://onnxruntime.ai/docs/performance/model-optimizations/graph-optimizations.html).
#
# ### What does not travel *(more)*
#
# *Predict: an `if` on a value of the input, and an `if` on a Python number. What does the exporter
# make of each?*


# %%
class Gate(torch.nn.Module):
    def forward(self, x, number):
        if number > 0:
            x = x.relu()
        if x.mean() > 1:
            return x / x.mean()
        return x


gate, some = Gate().eval(), torch.ones(2, 3)
if in_onnx:
    try:
        with onnx_export.quiet():
            torch.onnx.export(gate, (some, 1), dynamo=True)
    except torch.onnx.OnnxExporterError as error:
        why, line = onnx_export.refusal(error)
        print(f"{line}\n    {why}")

# %% [markdown]
# An export has no values, so it cannot know which branch to take, and it refuses. The other `if` it
# did know: the number was 1. `torch.cond` puts both branches into the graph.


# %%
class Both(Gate):
    def forward(self, x, number):
        if number > 0:
            x = x.relu()
        high = x.mean() > 1
        return torch.cond(high, lambda x: x / x.mean(), lambda x: x.clone(), (x,))


if in_onnx:
    with onnx_export.quiet():
        both = torch.onnx.export(Both().eval(), (some, 1), dynamo=True).model_proto
    conclude(*onnx_export.branches(Both(), both, number=1, other=-1))
    conclude(*onnx_export.left_out(trained, trainer, in_onnx))

# %% [markdown]
# ## 11. On the cluster *(more)*

# %% [markdown]
# ## What to take home
#
# 1. Eager code runs line by line. Whoever wants to rewrite a computation needs the whole of it: a
#    graph (section 1).
# 2. Backward walks over the graph from the loss to the inputs, once for all parameters (2).
# 3. An optimizer is a rule and a memory: Adam remembers two numbers for each parameter (4).
# 4. Each operator has a price before it computes. Larger batches share it, fusion avoids it (5).
# 5. Gradients are ready one after the other, the last layer's first. A hook at that moment is where
#    communication gets in (6).
# 6. Frameworks end; their ideas move on (8).
#
# **Now:** `exercises/04_frameworks.ipynb`, first `autodiff` and `gradient_hooks`.
#
# ### Where to read on *(more)*
#
# - Baydin et al. 2018, *Automatic differentiation in machine learning: a survey*, JMLR, section 3:
#   https://arxiv.org/abs/1502.05767
# - Ansel et al. 2024, *PyTorch 2*, ASPLOS: how Dynamo and Inductor capture and compile
# - Li et al. 2020, *PyTorch Distributed*, VLDB, section 3: https://arxiv.org/abs/2006.15704
# - Seide et al. 2014, *1-bit stochastic gradient descent*, Interspeech
