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
# does communication get in?
#
# Before most cells there is a question in italics. Write your answer down, then run the cell.
# Sections marked *(more)* are for the evening: fold them away, and come back to them.

# %%
# %load_ext hpml
# %matplotlib inline
from IPython.display import display

from hpml.publish import conclude, publish, publish_figure, skip

# %% [markdown]
# ## 1. The same function, three ways
#
# *Who knows the whole computation, and when?* Below is an update of SGD that shortens a gradient
# whose norm is above 1 (clipping). It has an `if` on a value that only the data decide.
#
# Does a short gradient (norm 0.2) run as many operators as a long one (norm 10)?

# %%
import torch

from hpml.modules.m04_frameworks.lecture import (
    captured_graphs,
    graph_picture,
    jax_tracing,
    operators_run,
    optional,
    tensorflow_graph,
)


def update(w, g):
    norm = (g * g).sum() ** 0.5
    if norm > 1.0:
        g = g / norm
    return w - 0.1 * g


w, short, long = torch.zeros(4), torch.full((4,), 0.1), torch.full((4,), 5.0)
ran_short, ran_long = (operators_run.recorded(update, w, g) for g in (short, long))
print(operators_run.by_line(ran_long))

# %%
conclude(
    len(ran_short) < len(ran_long),
    f"**Answer.** No: {len(ran_short)} and {len(ran_long)}. Eager mode runs an operator when Python "
    "reaches its line (*define-by-run*). Python decides at the `if`: `_local_scalar_dense` hands it "
    "the value. Nobody knows the next operator.",
    f"{len(ran_short)} and {len(ran_long)} operators: this version runs the lines otherwise.",
)

# %% [markdown]
# `torch.compile` looks ahead. *Dynamo* reads the function's bytecode, with tensors that have a shape
# and no values, and collects operators in a graph for a compiler
# ([Ansel et al. 2024](https://pytorch.org/blog/pytorch-2-paper-tutorial/)).
#
# *Predict: what can it do at the `if`? How many graphs are there after both gradients?*

# %%
graphs = captured_graphs.captured(update, (w, short), (w, long))
reasons = torch._dynamo.explain(update)(w, short).break_reasons
broken = [reason.user_stack[-1].line for reason in reasons]
names = ("always", "then, if norm ≤ 1", "then, if norm > 1")
publish_figure(
    "a graph break",
    graph_picture.graphs_picture(
        dict(zip(names, graphs, strict=False)),
        title="Between the graphs, Python looks at a value",
        marks={"gt": "Python looks at its value"},
    ),
    "The graphs that Dynamo captured of a function with an if, for two gradients.",
)

# %%
conclude(
    len(graphs) == 3 and len(broken) == 1,
    f"**Answer.** {len(graphs)}. Dynamo ends the graph at `{''.join(broken)}`, lets Python decide, and "
    "goes on with another graph: a *graph break*. No compiler sees past it. "
    "`torch._dynamo.explain` finds the line.",
    f"{len(graphs)} graphs: this version of Dynamo captures the branch.",
)

# %% [markdown]
# The remedy is an operator that chooses: `torch.where` computes both sides, `torch.cond` one. The
# third way, `tf.function`, begins with the graph (*define-and-run*).

# %% [markdown]
# ### The choice in the graph *(more)*
#
# | | define-by-run | define-and-run |
# |---|---|---|
# | known | one operator, when it runs | the graph, before it runs |
# | easy | debugger, `print`, another network for each input | fuse, plan memory, order communication, export |
# | hard | anything that needs the next operator | errors far from their line; choices that depend on values |
# | first | [Chainer 2015](https://docs.chainer.org/en/stable/guides/define_by_run.html) gave it the name; [PyTorch 2019](https://arxiv.org/abs/1912.01703) | [Theano 2010](https://doi.org/10.25080/Majora-92bf1922-003), [TensorFlow 2016](https://research.google/pubs/tensorflow-a-system-for-large-scale-machine-learning) |
#
# TensorFlow's AutoGraph, `torch.compile` and [JAX (2018)](https://research.google/pubs/pub47008/)
# want both: write the one, run the other.
#
# `fullgraph=True` makes a break an error. With `torch.where` there is none.


# %%
def update_where(w, g):
    norm = (g * g).sum() ** 0.5
    return w - 0.1 * torch.where(norm > 1.0, g / norm, g)


try:
    torch.compile(update, fullgraph=True, backend="eager")(w, short)
except torch._dynamo.exc.Unsupported as refused:
    print(str(refused).splitlines()[0])
whole = captured_graphs.captured(update_where, (w, short), (w, long))
assert len(whole) == 1
assert torch.equal(update_where(w, long), update(w, long))

# %% [markdown]
# `tf.function` runs the function once with symbols, to record a graph. AutoGraph first rewrites its
# source ([Moldovan et al. 2019](https://arxiv.org/abs/1810.08061)).
#
# *Predict: does this `if` break the graph too?*

# %%
if no_tf := tensorflow_graph.missing():
    skip("tf.function", no_tf)
else:
    tf = tensorflow_graph.tensorflow()

    @tf.function
    def update_tf(w, g):
        norm = tf.sqrt(tf.reduce_sum(g * g))
        if norm > 1.0:
            g = g / norm
        return w - 0.1 * g


# %%
if not no_tf:
    traced = tensorflow_graph.nodes_of(update_tf.get_concrete_function(tf.zeros(4), tf.zeros(4)))
    publish_figure(
        "one graph in two ways",
        graph_picture.graphs_picture(
            {"torch.where": whole[0], "tf.function": traced}, title="The choice is in the graph"
        ),
        "The graph that Dynamo captured of update_where, and the one that tf.function traced.",
    )

# %%
if not no_tf:
    choices = [node.label.splitlines()[0] for node in traced if node.kind == "control"]
    conclude(
        len(choices) == 1,
        f"**Answer.** No: the `if` became an operator, `{''.join(choices)}`, with both branches "
        "inside. The whole computation is known before a number is.",
        f"the graph has {len(choices)} operators that choose.",
    )

# %% [markdown]
# ### Who runs Python, and how often? *(more)*
#
# *Predict: the list below gets an entry whenever Python runs the line. Each version is called three
# times. How many entries?*


# %%
def noted(x):
    entries.append("here")
    return x * 2


entries, after_three = [], {}
versions = {
    "eager": (noted, torch.ones(2)),
    "torch.compile": (torch.compile(noted, backend="eager"), torch.ones(2)),
}
if not no_tf:
    versions["tf.function"] = tf.function(noted), tf.ones(2)
for name, (version, x) in versions.items():
    entries.clear()
    for _ in range(3):
        version(x)
    after_three[name] = len(entries)
print(after_three)

# %%
conclude(
    list(after_three.values()) == [3, 3, 1][: len(after_three)],
    "**Answer.** Eager mode 3 and `torch.compile` 3: Dynamo captures the operators, and does again "
    "what Python did beside them. `tf.function` 1: it records operators only, and the rest of the "
    "function runs once, while it traces.",
    f"the entries were {after_three}: this version treats side effects otherwise.",
)

# %% [markdown]
# ### When is it captured anew? *(more)*
#
# A graph is right for what it was captured with. Dynamo keeps *guards* with it: types, shapes, values
# of Python. Where a guard fails, the function is captured again. `tf.function` *retraces*.
#
# *Predict: five calls, with tensors of 4, 4, 5, 6 and 7 elements: how many graphs? And `tf.function`
# with the Python numbers 1 to 5, or with tensors of these numbers?*

# %%
shapes = (4, 4, 5, 6, 7)
calls = [(torch.zeros(n), torch.ones(n)) for n in shapes]
counts = {
    "torch.compile": captured_graphs.captures_after_each(update_where, calls),
    "torch.compile, dynamic=False": captured_graphs.captures_after_each(
        update_where, calls, dynamic=False
    ),
}
if not no_tf:
    of_tf = tensorflow_graph.traces_after_each
    counts["tf.function"] = of_tf(tf.reduce_sum, [tf.ones(n) for n in shapes])
    counts["tf.function, Python numbers"] = of_tf(tf.square, [1.0, 2.0, 3.0, 4.0, 5.0])
    counts["tf.function, tensors of them"] = of_tf(tf.square, list(tf.range(1.0, 6.0)))
for name, count in counts.items():
    print(f"{name:30} graphs after each call: {count}")

# %%
conclude(
    [count[-1] for count in counts.values()] == [2, 4, 4, 5, 1][: len(counts)],
    "**Answer.** `torch.compile` makes 2: once a size has changed, it makes a graph for other sizes. "
    "`tf.function` makes one for each shape (`reduce_retracing=True` makes it generalise too), and "
    "one for each *Python* number, which is a constant of the graph; a tensor is an input.",
    f"the graphs were {counts}: this version generalises otherwise.",
)

# %% [markdown]
# So pad the last, smaller batch or drop it, and hand over a learning rate as a tensor.
#
# ### What AutoGraph writes *(more)*
#
# *Predict: what can a rewritten `if` look like, so that both branches are recorded?*

# %%
if no_tf:
    skip("AutoGraph", no_tf)
else:
    written = tensorflow_graph.rewritten_if(update_tf)
    print(written)

# %%
if not no_tf:
    conclude(
        all(part in written for part in ("def if_body", "def else_body", "if_stmt")),
        "**Answer.** Each branch became a function, and the `if` a call, `if_stmt`. It looks at "
        "the condition: for a tensor it records both functions in the graph, for a Python value it "
        "calls one of them.",
        "the branches are not functions: this version of AutoGraph differs.",
    )

# %% [markdown]
# ### JAX refuses *(more)*
#
# JAX traces like `tf.function`, and rewrites nothing. Its arrays have the methods that `update` of
# the first cell calls, so it gets as far as the `if`. Below is the graph of a version with
# `jax.lax.cond`, then what `update` itself comes to.

# %% tags=["nbval-ignore-output"]
if no_jax := optional.missing("jax"):
    skip("JAX", no_jax)
else:
    import jax

    def update_cond(w, g):
        norm = (g * g).sum() ** 0.5
        return w - 0.1 * jax.lax.cond(norm > 1.0, lambda: g / norm, lambda: g)

    zeros, ones = jax.numpy.zeros(4), jax.numpy.ones(4)
    print(jax.make_jaxpr(update_cond)(zeros, ones).pretty_print(use_color=False))
    sums = jax_tracing.traces_after_each(jax.numpy.sum, [jax.numpy.ones(n) for n in shapes])
    print("graphs after each call, as above:", sums)

# %% tags=["nbval-ignore-output"]
if not no_jax:
    refusal = jax_tracing.refusal(update, zeros, ones)
    conclude(
        bool(refusal),
        f"At the `if`, `jax.jit` raises `{refusal}`: while it traces, an array is a *tracer*, which "
        "has a shape and no value. `jax.lax.cond` records both branches, and the text above is the "
        "whole graph.",
        "`jax.jit` traced the function: this version of JAX rewrites it.",
    )

# %% [markdown]
# ## 2. A derivative is a walk back over the graph
#
# Training needs the derivative of one number, the loss, by each weight. *Reverse-mode automatic
# differentiation* (Linnainmaa 1970) takes two things: a *tape* of the operations that ran, and for
# each kind of operation its *vjp* (vector-Jacobian product), which turns the derivative of the loss by
# the output into those by the inputs.


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
# *Predict: `a` is 2, `b` is 3, `p` is their product, `q` is `p + a`, and the loss is the product of
# `p` and `q`. What is the adjoint of `p`, which is used twice?*

# %%
from hpml.modules.m04_frameworks.lecture import counted, network_vjps, tape_picture

tape.clear()
a, b = Value(2.0), Value(3.0)
p = a * b
q = p + a
loss = p * q
backward(loss)
named = {"a": a, "b": b, "p": p, "q": q, "loss": loss}
publish_figure(
    "a graph with adjoints",
    tape_picture.draw(
        tape, named, PRIMITIVES, title="Values flow down; adjoints flow up, and add up"
    ),
    "The operations of p * q. Beside each arrow: what its use adds to the adjoint above it.",
)

# %%
conclude(
    (p.adjoint, a.adjoint, b.adjoint) == (14.0, 48.0, 28.0),
    f"**Answer.** {p.adjoint:g}: {q.data:g} by `p * q` and {q.adjoint:g} by `p + a`. What is "
    "used twice gets an adjoint from each use, and they **add up**.",
    f"p got {p.adjoint}, a {a.adjoint}, b {b.adjoint}: run the cells above again, in order.",
)

# %% [markdown]
# When the walk comes to an operation, all that used its output, later on the tape, have been
# there: its adjoint is complete. One walk gives the derivatives by all inputs, in training by
# all weights. The price is memory: the tape keeps every value until the walk comes by (section 3).
#
# PyTorch's documentation says *tape* too, but there is no list: each result refers to the operation
# that made it. (Your exercise: `autodiff`.)

# %% [markdown]
# ### A whole network *(more)*
#
# Does it work for a whole network? The course's needs nine more operations (convolution, batch
# normalisation, cross entropy, …). The library has their vjps, written by hand; `apply` and
# `backward` stay as they are.
#
# *Predict: how far are the gradients from PyTorch's?*

# %% tags=["nbval-ignore-output"]
reference = network_vjps.batch()  # float64, with torch's gradients
PRIMITIVES |= network_vjps.primitives(reference.labels)
leaves = {name: Value(tensor) for name, tensor in reference.parameters.items()}
tape.clear()
backward(network_vjps.network(apply, leaves, Value(reference.images)))
adjoints = {name: leaf.adjoint for name, leaf in leaves.items()}
differences = network_vjps.differences(adjoints, reference.gradients)

# %% tags=["nbval-ignore-output"]
worst = max(differences, key=differences.get)
weights = sum(gradient.numel() for gradient in reference.gradients.values())
conclude(
    differences[worst] < network_vjps.EXACT,
    f"**Answer.** One walk back over {len(tape)} operations gives all {weights:,} derivatives "
    f"in {len(differences)} tensors. The largest relative difference from torch's is "
    f"{differences[worst]:.0e}: rounding.",
    f"the gradient of {worst} differs from torch's by {differences[worst]:.0e} of its largest "
    f"element, more than rounding explains ({network_vjps.EXACT:.0e}).",
)

# %% [markdown]
# ### Forward mode, and what each mode costs *(more)*
#
# *Forward mode* needs no tape: each number carries its derivative by **one** input along.


# %%
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

# %%
most, many = (max(costs, key=lambda c: getattr(c, end)) for end in ("inputs", "outputs"))
conclude(
    counted.as_computed(costs),
    f"**Answer.** For one output reverse mode takes 3 times the function's multiplications, "
    f"with 1 input or with {most.inputs}; forward mode takes 3 times for *each* input. With "
    f"{many.inputs} input and {many.outputs} outputs forward mode is the cheap one. Training "
    f"has one output, the loss, and here {weights:,} inputs, the weights: {weights:,} passes "
    "of forward mode, or one walk back.",
    f"for {[(c.inputs, c.outputs) for c in costs]} inputs and outputs the two modes took "
    f"{[(c.forward, c.reverse) for c in costs]} multiplications: some operation does more than "
    "its formula.",
)

# %% [markdown]
# The 3 is not an accident: with additions and multiplications alone it is always 3 (Griewank 2012, Who
# Invented the Reverse Mode of Differentiation?, Documenta Mathematica, ISMP volume). For programs in
# general it is less than 6, usually 2 to 3
# ([Baydin et al. 2018](https://jmlr.org/papers/v18/17-468.html)).

# %% [markdown]
# ## 3. What is alive when *(more)*
#
# Backward needs values of forward: the derivative of x · x is 2x, so x must still be there. Autograd
# keeps what each operator will ask for, and nothing else. A *hook* sees each tensor that it keeps:

# %%
import torch
from torch.autograd.graph import saved_tensors_hooks


def kept_by(function):
    x, names = torch.rand(1000, requires_grad=True), set()

    def pack(tensor):
        names.add("input" if tensor.data_ptr() == x.data_ptr() else "output")
        return tensor

    with saved_tensors_hooks(pack, lambda tensor: tensor):
        function(x)
    return names


# %% [markdown]
# *Predict: which of these five keep their input, which their output, which neither? The derivative
# of exp(x) is exp(x); that of relu(x) is 0 or 1.*

# %%
functions = {"x + 1": lambda x: x + 1, "x * x": lambda x: x * x, "exp": torch.exp}
functions |= {"relu": torch.relu, "gelu": torch.nn.functional.gelu}
kept = {name: " ".join(kept_by(function)) for name, function in functions.items()}

# %%
conclude(
    list(kept.values()) == ["", "input", "output", "output", "input"],
    "**Answer.** "
    + ", ".join(f"`{name}`: {what or 'neither'}" for name, what in kept.items())
    + ". A derivative that can be had from the output needs no input.",
    f"this version of PyTorch keeps {kept}.",
)

# %% [markdown]
# Now the course's network, with 256 images. A recorder notes which operator makes each tensor, and
# when it is freed. It runs on the device `meta`, where tensors have shapes and no numbers. Is the
# same counted as with numbers?

# %%
from hpml.modules.m04_frameworks.lecture import kept_for_backward, live_tensors_picture

with_numbers = kept_for_backward.recorded("GELU", 8, "cpu")
without = kept_for_backward.recorded("GELU", 8)

# %%
conclude(
    without == with_numbers,
    "Yes: with 8 images, each tensor of the processor's run was recorded, with the same life.",
    "this version of PyTorch runs other operators on `meta` than on the processor.",
)

# %% [markdown]
# *Predict: when is most memory in use: in the middle of forward, around the turn to backward, or in
# the middle of backward? How much more would it be if nothing were freed?*

# %%
alive = {way: kept_for_backward.recorded(way) for way in kept_for_backward.WAYS}
publish_figure(
    "what is alive when",
    live_tensors_picture.draw(
        alive["GELU"], title="What forward keeps makes the peak, soon after the turn"
    ),
    "Every tensor of a forward and a backward pass of the course's network: its life from left to "
    "right, its bytes from bottom to top. Names are those of the operators that made them.",
)

# %%
gelu = alive["GELU"]
live, turn, peak, every = gelu.live(), gelu.turn, gelu.peak, gelu.never_freed()[-1]
seen = (
    f"forward ends in step {turn - 1} of {len(live)} with {live[turn - 1] / 1e6:.0f} MB, and the peak "
    f"is {peak / 1e6:.0f} MB, in step {gelu.peak_step}"
)
conclude(
    kept_for_backward.peaks_at_turn(gelu),
    f"**Answer.** Around the turn: {seen}. Backward begins with the last layers, which are small, "
    "and so frees little at first. Of the peak "
    f"{gelu.live('kept for backward')[gelu.peak_step] / peak:.0%} are kept for backward. If "
    f"nothing were freed, there would be {every / 1e6:.0f} MB at the end, {every / peak:.1f} times "
    f"as much. And one block of {kept_for_backward.block(gelu) / 1e6:.0f} MB, planned beforehand, "
    "has room for every tensor.",
    f"{seen}: gradients, or one large layer, weigh more than what is kept.",
)
bars = kept_for_backward.two_bars(gelu)
values, places = bars.values / 1e6, bars.places / 1e6
conclude(
    bars.held,
    f"Two bars to look at. The output of the first convolution ({bars.first.nbytes / 1e6:.0f} MB, at "
    "the left) is temporary: its filters are not trained, so backward does not come there. And "
    f"max pooling makes two tensors: the largest values, {values:.0f} MB of float32, and "
    f"where they were, {places:.0f} MB of int64.",
    f"the first convolution's output is {bars.first.kind}; max pooling makes {values:.0f} and "
    f"{places:.0f} MB.",
)

# %% [markdown]
# Python frees a tensor with its last reference. Where a graph is known before it runs, a plan can do
# so, and even choose each tensor's address. MXNet counts for each tensor the reads that are still to
# come ([its notes](https://mxnet.apache.org/api/architecture/note_memory)); TensorFlow Lite places
# all tensors in one block
# ([Lee and Pisarchyk 2020](https://blog.tensorflow.org/2020/10/optimizing-tensorflow-lite-runtime.html)).
# The lower picture is such a plan. The plan is your exercise `static_graph`.
#
# How can there be less to keep?
#
# *Predict: ReLU in place of GELU; and ReLU that overwrites its input (`inplace=True`): what does each
# save?*

# %%
print(kept_for_backward.table(alive))

# %%
relu = kept_for_backward.in_place(alive)
less, inside = relu.less / 1e6, alive["ReLU in place"].peak / 1e6
conclude(
    relu.held,
    f"**Answer.** With ReLU {less:.0f} MB less are kept. GELU keeps its input; ReLU keeps "
    "its output, which the next convolution often keeps anyway. In place the peak is the same "
    f"({inside:.0f} MB): nobody keeps ReLU's input, so it was freed at once in any "
    f"case. Only if nothing were freed would it save something: {relu.saved / 1e6:.0f} MB.",
    f"ReLU kept {less:.0f} MB less, and its peak is {alive['ReLU'].peak / 1e6:.0f} MB, in place "
    f"{inside:.0f} MB: this version of PyTorch keeps other tensors.",
)

# %% [markdown]
# The last row keeps only the inputs of the network's three stages, as *checkpoints*. Backward
# computes the rest again, one stage at a time. With a checkpoint after every √n of n layers, memory
# grows with √n, for one forward pass more
# ([Chen and others 2016](https://arxiv.org/abs/1604.06174)).
#
# *Predict: where is the peak now?*

# %%
publish_figure(
    "checkpoints",
    live_tensors_picture.draw(
        alive["GELU, checkpointed"], title="With checkpoints: little is kept, much computed again"
    ),
    "The same for a step in which each stage keeps its input alone.",
)

# %%
found, again = kept_for_backward.checkpointing(alive), alive["GELU, checkpointed"]
seen = (
    f"{again.total('kept for backward') / 1e6:.0f} MB are kept at the turn, and the peak is "
    f"{again.peak / 1e6:.0f} MB instead of {gelu.peak / 1e6:.0f} MB"
)
conclude(
    found.held,
    f"**Answer.** With checkpoints {seen}. It comes in backward now: {found.anew / 1e6:.0f} MB of it "
    f"were computed again. The price: {found.more} operators more than {len(gelu.operators)}.",
    f"with checkpoints {seen}, and {found.more} operators more run.",
)

# %% [markdown]
# ## 4. What an optimizer does, and what it remembers
#
# Backward has left a gradient in each parameter. The optimizer makes a step of it, by a rule. SGD
# remembers nothing. Other rules remember earlier gradients, in a *state* that lives from step to
# step: momentum keeps one number for each parameter, Adam two, beside the parameter itself. Every
# rank of data parallel training holds all of this. ZeRO shares it out: module 07, section 7.
# (`optimizers` is your exercise.)

# %% [markdown]
# ### Six ways down a valley *(more)*
#
# Six rules go down the same valley, from the same point, each with the best of nine learning rates:
#
# *f*(w₁, w₂) = ½ (w₁ − 6)² + 45 (w₂ − 2)²
#
# The bottom is where both weights stay within 0.1 of the lowest point.
#
# *Predict: which takes the fewest steps to the bottom, which the most? Which go past it?*

# %% tags=["nbval-ignore-output"]
import torch

from hpml.data import batches, load, normalize
from hpml.frameworks import lars
from hpml.models.residual import ResidualNetwork
from hpml.modules.m04_frameworks.lecture import (
    decoupled_decay,
    nesterov_forms,
    optimizer_state,
    valley,
    valley_picture,
)

ways_down = valley.paths()
valley_picture.step_through_paths(
    ways_down, title="Rules with a memory are at the bottom sooner, and go past it on the way along"
)

# %% tags=["nbval-ignore-output"]
steps = valley.steps_to_bottom(ways_down)
order, listed = [*steps], ", ".join(f"{rule} {count}" for rule, count in steps.items())
conclude(
    len(order) == len(ways_down) and (order[0], order[-1]) == ("Nesterov", "SGD"),
    f"**Answer.** Steps to the bottom: {listed}. The steep direction limits SGD's rate (beyond "
    f"2/{valley.STEEP:.0f} it diverges), so it creeps along the flat one. Momentum adds up gradients "
    "that agree, to ten times one step. Adam divides each weight's step by the size of its "
    "gradient, LARS each layer's; here each weight is a layer.",
    f"steps to the bottom: {listed or 'nobody got there'}. This version of PyTorch steps otherwise.",
)
past, most = valley.past_the_bottom(ways_down), max(ways_down.values(), key=lambda p: p.overshoot)
conclude(
    past == [rule for rule in ways_down if rule != "SGD"],
    f"Along the valley all but SGD go past the bottom, {most.rule} furthest: {most.overshoot:.1f} on a "
    f"way of {valley.LOWEST[0] - valley.START[0]:.0f}. What remembers earlier gradients goes on when "
    "the gradient has turned. SGD remembers nothing. Across the valley it jumps from side to side, "
    f"in {ways_down['SGD'].crossings} of {valley.STEPS} steps.",
    f"{', '.join(past) or 'nobody'} went past the bottom.",
)

# %% [markdown]
# ### What it costs to remember *(more)*
#
# Remembering costs memory: here it is counted.
#
# *Predict: how many bytes for each parameter does momentum keep, in float32? And Adam?*

# %%
states = optimizer_state.counted()
publish_figure(
    "what optimizers remember",
    optimizer_state.state_picture(states, title="Momentum keeps one number more, Adam two"),
    "Counted in the optimizers' states on the course's network, after one step; with parameters "
    "and gradients beside them.",
)

# %%
each = {rule: state.per_parameter for rule, state in states.items()}
momentum, adam = states["momentum"], states["Adam"]
conclude(
    {rule: round(nbytes / 4) for rule, nbytes in each.items()}
    == {"SGD": 0, "momentum": 1, "Nesterov": 1, "Adam": 2, "AdamW": 2, "LARS": 1},
    f"**Answer.** Momentum keeps {each['momentum']:.0f} bytes for each parameter, Adam "
    f"{each['Adam']:.0f}: {momentum.nbytes / 1e6:.1f} and {adam.nbytes / 1e6:.1f} MB beside a model "
    f"of {4 * adam.parameters / 1e6:.1f} MB. (Adam's step counts, one for each tensor, do not show.)",
    f"bytes for each parameter: {', '.join(f'{rule} {nbytes:.2f}' for rule, nbytes in each.items())}. "
    "This version of PyTorch keeps something else.",
)

# %% [markdown]
# ### The six rules *(more)*
#
# *g* is the gradient, *t* counts the steps of this parameter from 1, *λ* is the weight decay. Every
# rule but AdamW begins with *g* ← *g* + *λw*.
#
# | rule | it remembers | step |
# |---|---|---|
# | SGD | nothing | *w* ← *w* − lr *g* |
# | momentum (Polyak 1964) | *b* ← *μb* + *g* | *w* ← *w* − lr *b* |
# | Nesterov ([Sutskever et al. 2013](https://proceedings.mlr.press/v28/sutskever13.html)) | *b* ← *μb* + *g* | *w* ← *w* − lr (*g* + *μb*) |
# | Adam ([Kingma and Ba 2015](https://arxiv.org/abs/1412.6980)) | *m* ← *β₁m* + (1 − *β₁*) *g*; *v* ← *β₂v* + (1 − *β₂*) *g*² | *w* ← *w* − lr *m̂* / (√*v̂* + *ε*) |
# | AdamW ([Loshchilov and Hutter 2019](https://arxiv.org/abs/1711.05101)) | the same | *w* ← (1 − lr *λ*) *w*, then Adam's |
# | LARS ([You et al. 2017](https://arxiv.org/abs/1708.03888)), for a layer | *b* ← *μb* + lr *ηg* ‖*w*‖ / (‖*∇*‖ + *λ*‖*w*‖) | *w* ← *w* − *b* |
#
# *m* and *v* begin at 0, so the first ones are too small. The hats divide that out: *m̂* = *m* / (1 −
# *β₁ᵗ*), *v̂* = *v* / (1 − *β₂ᵗ*). In LARS ‖*∇*‖ is the norm of the gradient without the decay.
#
# ### The valley turned *(more)*
#
# One valley without noise is not a network. How much of the result hangs on this one? Its steep direction
# is exactly the second weight. Now the valley, and the start with it, is turned by 45° around the
# lowest point. Rates stay as they were.
#
# *Predict: which rules take as many steps as before, which take more?*

# %%
turned = {
    rule: valley.descend(rule, degrees=45) for rule in ("SGD", "momentum", "Nesterov", "Adam")
}
publish_figure(
    "the valley turned",
    valley_picture.valley_picture(
        turned,
        title="Turned by 45° (blue), only Adam goes another way than before (grey)",
        against=ways_down,
        directions=("along the valley", "across the valley"),
    ),
    "Paths in a valley turned by 45°, drawn along it and across it; grey: before it was turned.",
)

# %%
found = valley.turning(ways_down, turned)
before, after = found.steps["Adam"]
conclude(
    found.held,
    f"**Answer.** {', '.join(found.alike)} take as many steps as before: they know the gradient as a "
    f"whole, not the axes. Adam takes {after or f'more than {valley.STEPS}'} instead of {before}. It "
    "scales each weight by itself, which helps where steep and flat directions are weights. Here both "
    "weights have their share of the steep one.",
    "steps before and after turning: "
    + ", ".join(f"{rule} {a} and {b}" for rule, (a, b) in found.steps.items()),
)

# %% [markdown]
# ### Nesterov's momentum, as PyTorch has it *(more)*
#
# Sutskever et al. (2013, section 2) take the gradient where the momentum will lead: *v* ← *μv* −
# lr *∇f*(*θ* + *μv*), then *θ* ← *θ* + *v*. PyTorch's form, in the table above, needs the gradient
# only where the parameter is. Its parameter stands for *θ* + *μv*.
#
# *Predict: do both go the same way? Still so when the rate is cut to a fifth at step 10?*

# %% tags=["nbval-ignore-output"]
constant = nesterov_forms.apart([0.01] * 60)
cut = nesterov_forms.apart([0.01] * 10 + [0.002] * 50)

# %% tags=["nbval-ignore-output"]
conclude(
    constant < 1e-9 < 1e-3 < cut,
    f"**Answer.** With one rate they differ by {constant:.0e}, which is rounding. When the "
    f"rate changes, by up to {cut:.2g}: PyTorch's buffer has no rate in it, so a new one "
    "holds for all of the momentum at once; in the paper's form old gradients keep the rate of "
    "their own step.",
    f"with one rate they differ by {constant:.0e}, with a changed one by {cut:.0e}.",
)

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
decayed = decoupled_decay.decays()
publish_figure(
    "decay in the gradient and beside it",
    decoupled_decay.decay_picture(
        decayed, title="Adam's decay depends on the size of the gradient, AdamW's does not"
    ),
    "Three weights under gradients that change sign in each step; learning rate 0.01, decay 0.5.",
)

# %%
left = decoupled_decay.left(decayed)
adam, adamw = (", ".join(f"{value:.2f}" for value in one) for one in (left.adam, left.adamw))
conclude(
    left.held,
    f"**Answer.** Of weights of 1 with gradients of "
    f"±{', ±'.join(f'{slope:g}' for slope in decoupled_decay.SLOPES)} AdamW leaves {adamw}: all near "
    f"(1 − lr · decay)^{decoupled_decay.STEPS} = {left.right:.2f}. Adam leaves {adam}. It divides the "
    "decay by the size of the gradient too, so the weight that moves most is decayed least.",
    f"AdamW leaves {adamw}, Adam {adam}: this version of PyTorch decays otherwise.",
)

# %% [markdown]
# ### A rate for each layer *(more)*
#
# Many ranks make a large batch, and the linear rule asks for a large rate (module 01, section 4).
# Then training may diverge, if one layer's step is too large for its weights. LARS measures this in
# each layer, by ‖*w*‖/‖*g*‖ (You, Gitman and Ginsburg 2017, *Large batch training of convolutional
# networks*). LAMB does the same with Adam's step ([You et al. 2020, *Large batch optimization for
# deep learning*](https://arxiv.org/abs/1904.00962)).
#
# *Predict: by which factor does ‖w‖/‖g‖ differ between the layers of the course's network?*

# %% tags=["nbval-ignore-output"]
torch.manual_seed(0)
pixels, labels = next(batches(load().train, range(64), batch_size=64))
ratios = lars.layer_ratios(ResidualNetwork(), normalize(pixels), labels)
print("\n".join(f"{layer:30}{each:6.1f}" for layer, each in ratios.items()))

# %% tags=["nbval-ignore-output"]
least, most = min(ratios, key=ratios.get), max(ratios, key=ratios.get)
spread = ratios[most] / ratios[least]
conclude(
    spread > 2,
    f"**Answer.** ‖w‖/‖g‖ is {ratios[least]:.2g} in `{least}` and {ratios[most]:.2g} in "
    f"`{most}`. So with one rate for all, a step changes a {spread:.0f} times larger share of "
    "the first's weights. A rate that suits the second may be too large for the first. LARS "
    "gives each layer its own.",
    f"‖w‖/‖g‖ is between {ratios[least]:.2g} and {ratios[most]:.2g}: the layers are alike.",
)

# %% [markdown]
# ## 5. Where the time goes below Python
#
# For `x + y`, Python's arguments are checked, the *dispatcher* finds the function for this device and
# type, autograd records, memory is allocated, and at last a *kernel* computes.
#
# *Predict: how long does it take for 1 element, and how much longer for 4 million?*

# %% tags=["nbval-ignore-output"]
from hpml.modules.m04_frameworks.lecture import dispatch, fused_chain, optional, step_price
from hpml.record import kept, pictures

curve = dispatch.add_curve()
publish_figure(
    "the price of a call",
    dispatch.curve_picture(curve, title="Left of the knee you pay for the call, not for the work"),
    "Time of torch.add into an existing tensor over its number of elements, one thread.",
)

# %% tags=["nbval-ignore-output"]
(_, least), *_, (largest, most) = curve.seconds.items()
conclude(
    curve.flat_then_steep,
    f"**Answer.** {1e6 * least:.1f} µs for 1 element, {1e6 * most:,.0f} µs for {largest:,}: "
    f"{most / least:,.0f} times as long for {largest:,} times the work. A call has a fixed price; at "
    f"about {float(f'{curve.knee:.1g}'):,.0f} elements the work costs as much again.",
    f"1 element took {1e6 * least:.1f} µs, {largest:,} elements {1e6 * most:,.0f} µs, with no flat "
    "part: the cores are shared.",
)

# %% [markdown]
# A training step runs many operators, each at this price.
#
# *Predict: at 256 GPUs a batch of 8,192 images is 32 for each. Computing has become 256 times
# shorter. Have the calls?*

# %% tags=["nbval-ignore-output"]
calls, gpu = step_price.operators(32), kept.recorded("training")
launching = 1e3 * calls * pictures.launches(kept.recorded("roofline")).asked
computing = 1e3 * 32 / gpu.result["runs"][0]["images_per_second"]
conclude(
    calls == step_price.operators(1) and launching > computing,
    f"**Answer.** No: a step of the course's network runs {calls} operators with 32 images, and as "
    f"many with 1. On a recorded {gpu.device['name']} so many launches take {launching:.2f} ms, and computing "
    f"32 images {computing:.2f} (at its speed with 1,000), on each rank, however many ranks share the batch. "
    "More GPUs for the same batch end here, or at the network.",
    f"{calls} operators with 32 images and {step_price.operators(1)} with one: this version of "
    "PyTorch chooses operators by the batch.",
)

# %% [markdown]
# A GPU makes the computing faster, not the call. While Python runs ahead of the GPU, the price is
# hidden ([Paszke et al. 2019](https://arxiv.org/abs/1912.01703), section 5.2). Small batches and each
# `.item()` lose that lead.
#
# A compiler with a graph saves more than calls: *fusion* makes one kernel of a chain of operators, and
# what lies between stays in registers.

# %% [markdown]
# ### What the calls of a step cost *(more)*
#
# *Predict: how many operators does a training step of the course's network run? What share of it is
# their price, at batch 1 and at batch 256?* To see the price alone, a *thin* network runs the same
# operators on 4 channels.

# %% tags=["nbval-ignore-output"]
step = step_price.measure()
print(step)

# %% tags=["nbval-ignore-output"]
one, many = step_price.BATCHES
conclude(
    step.is_fixed,
    f"**Answer.** {step.operators} operators. At the price of an addition they cost "
    f"{1e3 * step.operators * step.price:.2f} ms, in the thin network {1e3 * step.thin:.1f} "
    "ms: on average they are dearer. That is "
    f"{step.share(one):.0%} of a step at batch {one}, {step.share(many):.2%} at batch {many}.",
    f"the thin network's step took {1e3 * step.thin:.1f} ms, the course's "
    f"{1e3 * step.steps[one]:.1f} ms at batch {one} and {1e3 * step.steps[many]:,.0f} ms at "
    f"batch {many}: the cores are shared.",
)

# %% [markdown]
# ### A fused chain, and the libraries *(more)*
#
# Written as its formula, the activation GELU is a chain of operators. Each reads its input from memory
# and writes its output back. `torch.compile(gelu)` computes the same. Both are called in turn, in a
# process of one thread: first as PyTorch comes, then with freed memory kept by the process.
#
# *Predict: how many kernels does the compiler make of it? What part of the bytes do they move, and
# after how many calls has compiling paid?*

# %% tags=["nbval-ignore-output"]
import inspect
from statistics import median

print(inspect.getsource(fused_chain.gelu))
if no_compiler := fused_chain.missing():
    skip("torch.compile", no_compiler)
else:
    chain = fused_chain.compare()
    print(chain)
    publish(
        "compiled GELU, times as fast",
        chain.gain_kept.factor,
        caption="The same formula on one thread, freed memory kept; eager mode over one kernel.",
    )

# %% tags=["nbval-ignore-output"]
if not no_compiler:
    conclude(
        chain.fused,
        f"**Answer.** {len(chain.kernels)}, `{chain.kernels[0]}`, named after what is in it. This is "
        f"*fusion*: what lies between stays in registers. It moves "
        f"{chain.compiled_moved / chain.moved:.0%} of the bytes of eager mode's {chain.operators} "
        f"operators, and is {chain.gain} times as fast. Compiling took {chain.first_call:.0f} s, paid back "
        f"after {chain.break_even:,.0f} calls.",
        f"{chain.operators} operators became {len(chain.kernels)} kernels, {chain.gain} times as fast; "
        f"compiling took {chain.first_call:.0f} s, and the results differ by {chain.difference:.1g}: "
        "this version of the compiler decides otherwise, or the cores are shared.",
    )

# %% [markdown]
# *Predict: how much of that gain is fusion? What bounds the one kernel, bytes or arithmetic?*

# %% tags=["nbval-ignore-output"]
if not no_compiler:
    gain, kept = chain.gain, chain.gain_kept
    copied, tanh, one = (
        1e3 * seconds for seconds in (chain.copied, chain.tanh, median(kept.after))
    )
    seen = (
        f"With freed memory kept it is {kept} times as fast. Of its {one:.0f} ms, a copy of the same bytes "
        f"takes {copied:.0f} ms, and `torch.tanh` alone, one operator on as many bytes, {tanh:.0f} ms"
    )
    conclude(
        kept.factor < gain.factor and one > 1.5 * copied,
        f"**Answer.** {seen}. The rest of the first gain was fresh memory: each of eager mode's results "
        "is a new mapping, and Linux clears its pages (lecture 02, section 2). The fused kernel takes "
        f"{one / copied:.0f} times as long as the copy: bytes do not bind it, arithmetic does.",
        f"{seen}.",
    )

# %% [markdown]
# A GPU has more arithmetic for each byte: there memory bounds such a chain, fused or not, and fewer
# bytes are the gain. For a convolution or a matrix product compiled code calls a library, as eager
# mode does:
#
# | library | gives | for |
# |---|---|---|
# | [oneDNN](https://uxlfoundation.github.io/oneDNN/) | convolutions, products, normalisation | CPUs (kernels by name: [lecture 02](02_hardware.ipynb)) |
# | [cuBLAS](https://docs.nvidia.com/cuda/cublas/) | matrix products | NVIDIA's GPUs |
# | [cuDNN](https://docs.nvidia.com/deeplearning/cudnn) | convolutions, attention, normalisation | NVIDIA's GPUs |
# | [NCCL](https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/overview.html) | all-reduce and other collectives | between NVIDIA's GPUs |

# %% [markdown]
# ### The loop that the compiler wrote *(more)*
#
# *Predict: how many loops are in the compiled code, and how often does it read `x`, which stands five
# times in the formula?*

# %% tags=["nbval-ignore-output"]
if not no_compiler:
    print(chain.loop)

# %% tags=["nbval-ignore-output"]
if not no_compiler:
    loops, reads, writes = (chain.loop.count(part) for part in ("for(", "in_ptr0", "out_ptr0"))
    conclude(
        (loops, reads, writes) == (1, 1, 1),
        f"**Answer.** {loops} loop. It reads each number once (`in_ptr0`) and writes each result "
        f"once (`out_ptr0`). The {chain.operators} operators are the lines between, on as many "
        "numbers at a time as a register holds.",
        f"{loops} loops, {reads} reads, {writes} writes: this compiler writes others.",
    )

# %% [markdown]
# ### A kernel in Triton *(more)*
#
# For a GPU the same compiler writes [Triton](https://triton-lang.org) (Tillet, Kung and Cox 2019, at
# MAPL): Python for one *program*, which works on a block of numbers. Many programs run at once, each with a number of its own. This is
# GELU as one kernel, written by hand. Without a GPU, Triton's interpreter carries the programs out
# one after the other, with NumPy: right, and slow.
#
# *Predict: 1,000 numbers in blocks of 256. How many programs run? What would the last one do without
# its mask? How often are `x` and `out` touched, and where is `inner`?*

# %% tags=["nbval-ignore-output"]
if no_triton := optional.missing("triton"):
    skip("Triton", no_triton)
else:
    import os

    gpu = torch.cuda.is_available()
    os.environ["TRITON_INTERPRET"] = "0" if gpu else "1"  # read when a kernel is defined
    import triton
    import triton.language as tl

    @triton.jit
    def gelu_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
        at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)  # this program's numbers
        inside = at < n
        x = tl.load(x_ptr + at, mask=inside)  # from memory, once
        inner = 0.7978845608 * (x + 0.044715 * x * x * x)
        tanh = 1 - 2 / (1 + tl.exp(2 * inner))
        tl.store(out_ptr + at, 0.5 * x * (1 + tanh), mask=inside)  # to memory, once

    x = torch.randn(1000, device="cuda" if gpu else "cpu")
    out = torch.full_like(x, float("nan"))
    programs = triton.cdiv(len(x), 256)
    gelu_kernel[(programs,)](x, out, len(x), BLOCK=256)

# %% tags=["nbval-ignore-output"]
if not no_triton:
    off = (out - fused_chain.gelu(x)).abs().max().item()
    conclude(
        off < 1e-5,
        f"**Answer.** {programs} programs; the last has {len(x) - 256 * (programs - 1)} numbers, and "
        f"without its mask it would write behind the end of `out`. Each number is loaded once and stored "
        f"once; `inner` is never in memory. The result differs from eager mode's by {off:.0e} at most.",
        f"the results differ by {off:.1g}: this version of Triton computes otherwise.",
    )

# %% [markdown]
# On a GPU a program becomes one block of threads, as in CUDA. What CUDA leaves to you, Triton decides:
# which thread has which number, and what goes through shared memory. `TORCH_LOGS=output_code` shows the
# kernels that `torch.compile` wrote for your own code.

# %% [markdown]
# ### What a call of one element is made of *(more)*
#
# *Predict: which is the larger part of a microsecond: Python's call, or what PyTorch does in C++?*

# %% tags=["nbval-ignore-output"]
parts = dispatch.prices()
print(dispatch.price_table(parts))

# %% tags=["nbval-ignore-output"]
micros = [1e6 * seconds for seconds in parts.values()]
nothing, into, bare, _, recorded = micros
conclude(
    nothing < bare and into < bare < recorded and into < recorded / 2,
    f"**Answer.** Python's own call is the small part: {into:.2f} of {recorded:.1f} µs. Checking "
    f"the arguments, choosing the kernel and allocating the result take {bare - into:.1f} µs, "
    f"recording for backward {recorded - bare:.1f} µs.",
    f"the rows took {', '.join(f'{price:.2f}' for price in micros)} µs: the cores are shared.",
)

# %% [markdown]
# ## 6. Where communication gets in
#
# Backward makes gradients one after the other, and the last layer's first. The plain way to average
# them over the ranks begins when backward has ended. Here are six equal layers on two ranks, behind
# links of 400 Mbit/s. `each_backward` computes a loss and its gradients, three times.

# %% tags=["nbval-ignore-output"]
# %%ranks 2 --link 400mbit --evidence after_backward
import torch.distributed as dist

from hpml.modules.m04_frameworks.lecture.gradients_leaving import each_backward, equal_layers

model, batch = equal_layers(rank)
for _ in each_backward(model, batch):
    for parameter in model.parameters():
        dist.all_reduce(parameter.grad)
        parameter.grad /= world_size

# %% [markdown]
# A framework lets you step in earlier. `register_post_accumulate_grad_hook` has backward call a
# function of yours as soon as a parameter's `grad` is complete. With `async_op=True` an `all_reduce`
# returns at once, and the gradient travels while backward computes the next one. You wait at the end.
#
# *Predict: of the six messages, how many leave while backward is at work? How many have arrived when
# it ends?*

# %% tags=["nbval-ignore-output"]
# %%ranks 2 --link 400mbit --evidence in_hooks
import torch.distributed as dist

from hpml.modules.m04_frameworks.lecture.gradients_leaving import each_backward, equal_layers

model, batch = equal_layers(rank)
in_flight = []


def leave(parameter):
    work = dist.all_reduce(parameter.grad, async_op=True)
    work.get_future()  # for the ledger: it then notes when the sum is there
    in_flight.append((parameter, work))


for parameter in model.parameters():
    parameter.register_post_accumulate_grad_hook(leave)
for _ in each_backward(model, batch):
    for parameter, work in in_flight:
        work.wait()
        parameter.grad /= world_size
    in_flight.clear()

# %% tags=["nbval-ignore-output"]
from hpml.modules.m04_frameworks.lecture import (
    gradients_leaving,
    gradients_leaving_picture,
    stepping_in,
)

ways = {
    "after\nbackward": gradients_leaving.quickest_step(after_backward),
    "in hooks": gradients_leaving.quickest_step(in_hooks),
}
plain_way, hooked_way = ways.values()
early = f"{len(hooked_way.arrived)} of {len(hooked_way.calls)}"
publish_figure(
    "where communication gets in",
    gradients_leaving_picture.leaving_picture(
        ways, title=f"With hooks {early} gradients arrive while backward computes"
    ),
    "The quickest of three steps on two ranks, each behind a link of 400 Mbit/s: rank 0's ledger.",
)

# %% tags=["nbval-ignore-output"]
count = len(hooked_way.calls)
there, total = (
    sum(call.nbytes for call in calls) / 1e6 for calls in (hooked_way.arrived, hooked_way.calls)
)
seen = (
    f"{len(hooked_way.left)} of {count} messages leave while backward is at work, and "
    f"{len(hooked_way.arrived)} have arrived when it ends, {there:.1f} of {total:.1f} MB"
)
rest, all_of_it = 1e3 * hooked_way.wait, 1e3 * plain_way.wait
conclude(
    gradients_leaving.hidden(plain_way, hooked_way),
    f"**Answer.** {seen}. The rank then waits {rest:.0f} ms for the rest. The plain way sends "
    f"the same bytes, and waits {all_of_it:.0f} ms for all of them.",
    f"{seen}; of the plain way, {len(plain_way.left)} leave before backward ends. After backward "
    f"the ranks wait {rest:.0f} ms and {all_of_it:.0f} ms. The cores may have been busy with "
    "other programs.",
)
steps, backwards = (
    [1e3 * getattr(way, part) for way in (plain_way, hooked_way)] for part in ("averaged", "ended")
)
conclude(
    steps[1] < steps[0] and backwards[0] < backwards[1],
    f"The step gains less than the wait: it goes from {steps[0]:.0f} to {steps[1]:.0f} ms, for backward "
    f"goes from {backwards[0]:.0f} to {backwards[1]:.0f} ms. Sending needs the cores that compute. (On "
    "a GPU, NCCL's kernels take multiprocessors and memory bandwidth from backward.)",
    f"The step goes from {steps[0]:.0f} to {steps[1]:.0f} ms, backward from {backwards[0]:.0f} to "
    f"{backwards[1]:.0f} ms.",
)

# %% [markdown]
# Three rules make this right:
#
# - **No hook waits.** A blocking `all_reduce` in a hook holds up the next gradient.
# - **One order.** Collectives match by order, so all ranks must start them in the same one, even where
#   gradients become ready in another.
# - **Complete gradients only.** The gradient of a weight that is used twice has two parts. The hook
#   comes *post accumulate*: when both have been added up.
#
# With many small gradients each message costs its latency: *buckets* put several into one message
# (module 06; `DistributedDataParallel` is this in C++, [Li et al. 2020](https://arxiv.org/abs/2006.15704)).
# `gradient_hooks` is your exercise.

# %% [markdown]
# ### The same on a GPU *(more)*
#
# On a GPU backward itself only queues kernels. A *stream* is such a queue: kernels of one stream
# run in order, those of two streams may run at the same time. PyTorch's NCCL backend has a stream of
# its own, which waits on the GPU until the gradient is computed. `work.wait()` does not block Python
# there: it makes the current stream wait
# ([torch.distributed](https://docs.pytorch.org/docs/stable/distributed.html#synchronous-and-asynchronous-collective-operations)).

# %% [markdown]
# ### An optimizer that communicates: ChainerMN *(more)*
#
# Older frameworks stepped in at other places (section 8 has them all). Here are four ideas, each in
# a cell that runs. `train(model, …)` is an ordinary training loop of one process, with momentum. Each
# rank calls it with batches of its own.
#
# ChainerMN steps in between backward and the update. It gives you a new optimizer around your own
# ([Akiba et al. 2017](https://arxiv.org/abs/1710.11351);
# [tutorial](https://github.com/chainer/chainermn/blob/v1.3.1/docs/source/tutorial/step1_communicators_optimizers.rst)),
# which averages the gradients before it lets yours step. In PyTorch an optimizer has a hook for that.
#
# *Predict: after 20 steps, how far are the weights from those of one process that has both batches?*

# %% tags=["nbval-ignore-output"]
# %%ranks 2 --out multi_node_weights
import torch.distributed as dist

from hpml.modules.m04_frameworks.lecture.small_training import network, sgd, train, weights


def multi_node(optimizer):
    def average(optimizer, args, kwargs):
        for parameter in optimizer.param_groups[0]["params"]:
            dist.all_reduce(parameter.grad)
            parameter.grad /= world_size

    optimizer.register_step_pre_hook(average)
    return optimizer


model = network()
train(model, rank, steps=20, optimizer=multi_node(sgd(model)))
multi_node_weights = weights(model)

# %% tags=["nbval-ignore-output"]
apart = stepping_in.gap(multi_node_weights, steps=20)
seen = f"After 20 steps a weight differs from that of one process by {apart:.0e} at most"
conclude(
    apart < stepping_in.EQUAL,
    f"**Answer.** {seen}: rounding.",
    f"{seen}, more than rounding explains: the ranks have trained something else.",
)

# %% [markdown]
# It works with every optimizer and every model. Nothing overlaps: all gradients are there before the
# first one leaves. (Horovod's optimizer for PyTorch looks the same from outside, and registers hooks:
# lecture 05.)
#
# ### A graph that is rewritten: MaTEx *(more)*
#
# With MaTEx the script stays as it is. What changes is TensorFlow's runtime
# ([Vishnu et al. 2017](https://arxiv.org/abs/1704.04560)): if you run a graph, you can run more than
# was written. `torch.compile` is such a place. It hands the graph of backward to a *back end*, and this
# one puts a node behind each gradient.
#
# *Predict: where in the graph does the first all-reduce stand: in the middle, or at the end?*

# %% tags=["nbval-ignore-output"]
# %%ranks 2 --out rewritten_weights,rewritten_nodes
import torch
import torch.distributed as dist
from functorch.compile import make_boxed_func
from torch._dynamo.backends.common import aot_autograd

from hpml.modules.m04_frameworks.lecture.small_training import network, train, weights

rewritten_nodes = []


def mean_of_ranks(gradient):
    dist.all_reduce(gradient)
    return gradient / world_size


def forward_pass(module, inputs):
    return make_boxed_func(module.forward)  # as it is


def backward_pass(module, inputs):
    graph = module.graph
    (output,) = graph.find_nodes(op="output")
    for gradient in filter(None, output.args[0]):
        with graph.inserting_after(gradient):
            mean = graph.call_function(mean_of_ranks, (gradient,))
        output.replace_input_with(gradient, mean)
    module.recompile()
    rewritten_nodes.extend(node.name for node in graph.nodes)
    return make_boxed_func(module.forward)


model = network()
backend = aot_autograd(fw_compiler=forward_pass, bw_compiler=backward_pass)
train(torch.compile(model, backend=backend), rank, steps=20)
rewritten_weights = weights(model)

# %% tags=["nbval-ignore-output"]
print(" → ".join(rewritten_nodes[0]))

# %% tags=["nbval-ignore-output"]
found = stepping_in.all_reduces(rewritten_nodes[0])
nodes, count = len(rewritten_nodes[0]), len(found.places)
numbers = ", ".join(str(place + 1) for place in found.places)
apart = stepping_in.gap(rewritten_weights, steps=20)
conclude(
    found.held and apart < stepping_in.EQUAL,
    f"**Answer.** In the middle. Of {nodes} nodes, the {count} all-reduces are numbers {numbers}. "
    f"Behind the first one {found.behind} of {found.computing} nodes that compute are still to come: "
    f"with an asynchronous call they could overlap. The weights are those of one process, but for "
    f"{apart:.0e}. No line of the training was changed.",
    f"the graph has {nodes} nodes, {count} of them are all-reduces ({numbers}), {found.behind} of "
    f"{found.computing} nodes that compute are behind the first one, and weights differ from those "
    f"of one process by {apart:.0e}: this version of PyTorch makes another graph.",
)

# %% [markdown]
# ### Push and pull: MXNet *(more)*
#
# MXNet has a key-value store
# ([kvstore](https://mxnet.apache.org/versions/1.6/api/python/docs/api/kvstore/index.html)). A worker
# *pushes* its gradients, the store adds up what all have pushed, and an updater that was registered
# with it changes the weights. Then the worker *pulls* them. Here the store is rank 2, and all that is
# left of a worker's optimizer is a push and a pull.
#
# *Predict: which ranks hold the momentum?*

# %% tags=["nbval-ignore-output"]
# %%ranks 3 --out store_weights,momentum_bytes
import torch.distributed as dist

from hpml.modules.m04_frameworks.lecture.small_training import network, sgd, train, weights

STORE, STEPS = 2, 20
model = network()
parameters = list(model.parameters())


class PushAndPull:
    zero_grad = model.zero_grad

    def step(self):
        for parameter in parameters:
            dist.reduce(parameter.grad, dst=STORE)  # push
        for parameter in parameters:
            dist.broadcast(parameter.detach(), src=STORE)  # pull


def serve(updater):
    for _ in range(STEPS):
        for parameter in parameters:
            parameter.grad = 0 * parameter.detach()
            dist.reduce(parameter.grad, dst=STORE)
            parameter.grad /= world_size - 1
        updater.step()
        for parameter in parameters:
            dist.broadcast(parameter.detach(), src=STORE)


updater = sgd(model)
if rank == STORE:
    serve(updater)
else:
    train(model, rank, STEPS, optimizer=PushAndPull())
store_weights = weights(model)
momentum_bytes = sum(state["momentum_buffer"].nbytes for state in updater.state.values())

# %% tags=["nbval-ignore-output"]
*workers, store = momentum_bytes
apart = stepping_in.gap(store_weights[:-1], steps=20)
seen = (
    f"The store holds {store:,} bytes of momentum, the workers {max(workers):,}. Weights "
    f"differ from those of one process by {apart:.0e} at most"
)
conclude(
    store > 0 and not any(workers) and apart < stepping_in.EQUAL,
    f"**Answer.** The store alone. {seen}: rounding. A worker needs no optimizer at all.",
    f"{seen}.",
)

# %% [markdown]
# The store is a parameter server: its link carries everybody's gradients (lecture 01). BigDL has no
# server and no MPI: two Spark jobs in each step, of which the second one has every task add up and
# update one part of the weights
# ([Dai et al. 2019](https://arxiv.org/abs/1804.05839)).
#
# ### Blocks of steps: CNTK *(more)*
#
# CNTK can do without gradients on the wire. Each rank makes a *block* of steps alone; then the ranks
# average their weights. *Block momentum* does not jump to the average W: with the change of the
# agreed weights in the block before, Δ, it takes the step η Δ + (W − agreed)
# ([Chen and Huo 2016](https://ieeexplore.ieee.org/document/7472805)). Each block begins with a new
# optimizer, without momentum.
#
# *Predict: 20 blocks of 8 steps. How many messages of all weights are that instead of 160? And which
# η ends with the lower loss, 0 (plain averages) or 0.5?*

# %% tags=["nbval-ignore-output"]
# %%ranks 2 --out block_weights --evidence block_calls
import torch.distributed as dist
from torch.nn.utils import vector_to_parameters

from hpml.modules.m04_frameworks.lecture.small_training import network, train, weights

block_weights = {}
for momentum in ("0", "0.5"):
    model = network()
    agreed, change = weights(model), 0
    for block in range(20):
        train(model, rank, steps=8, first=8 * block)
        average = weights(model)
        dist.all_reduce(average)
        change = float(momentum) * change + (average / world_size - agreed)
        agreed = agreed + change
        vector_to_parameters(agreed.clone(), model.parameters())
    block_weights[momentum] = agreed

# %% tags=["nbval-ignore-output"]
by_momentum = {float(eta): [one[eta] for one in block_weights] for eta in block_weights[0]}
sent_each = len(block_calls.ranks[0].calls) // len(by_momentum)
found = stepping_in.after_blocks(by_momentum, steps=160)
seen = (
    f"{sent_each} messages instead of 160. The loss in the end is {found.by_momentum[0.0]:.4f} with "
    f"plain averages and {found.by_momentum[0.5]:.4f} with block momentum 0.5; it is "
    f"{found.each_step:.4f} where the ranks agree in each step"
)
conclude(
    found.held and sent_each * 4 <= 160,
    f"**Answer.** {seen}. Block momentum carries the direction in which all ranks moved into "
    "the next block; plain averages begin anew.",
    f"{seen}.",
)

# %% [markdown]
# ## 7. One bit for each gradient *(more)*
#
# CNTK's *1-bit SGD* ([Seide et al. 2014](https://www.microsoft.com/en-us/research/publication/1-bit-stochastic-gradient-descent-and-application-to-data-parallel-distributed-training-of-speech-dnns/))
# sends one bit for each element of a gradient: its sign. Here one number for the whole tensor goes
# with them, the mean size of its elements. That is a coarse picture. So each rank keeps what it left
# out, and adds it to the gradient of the next step: *error feedback*.
#
# Bits cannot be added up on the way round a ring. Either everybody gets everybody's bits
# (`with_feedback`), or rank k adds up part k of each tensor, and makes bits of the sum (`in_parts`).
#
# *Predict: on four ranks, how many times fewer bytes does each way send? With the same learning rate
# and as many steps, where does the loss end: with feedback, and without?*

# %% tags=["nbval-ignore-output"]
# %%ranks 4 --evidence bits_sent --out bit_curves --timeout 300
import torch
import torch.distributed as dist

from hpml.modules.m04_frameworks.lecture.one_bit import (
    EXACT,
    FEEDBACK,
    FORGOTTEN,
    IN_PARTS,
    pack,
    train,
    unpack,
)


def exact(gradient, error):
    dist.all_reduce(gradient)
    return gradient / world_size


def from_all(message):
    everyones = [torch.empty_like(message) for _ in range(world_size)]
    dist.all_gather(everyones, message)
    return everyones


def forgotten(gradient, error):
    message = pack(gradient)  # eight signs in a byte, and a float32
    return sum(unpack(one, like=gradient) for one in from_all(message)) / world_size


def with_feedback(gradient, error):
    wanted = gradient + error
    signs = [unpack(one, like=wanted) for one in from_all(pack(wanted))]
    error.copy_(wanted - signs[rank])  # for the next step
    return sum(signs) / world_size


def in_parts(gradient, error):
    wanted = (gradient + error).view(world_size, -1)
    messages = torch.stack([pack(part) for part in wanted])
    received = torch.empty_like(messages)
    dist.all_to_all_single(received, messages)  # everybody's bits of my part
    mean = sum(unpack(one, like=wanted[rank]) for one in received) / world_size
    message = pack(mean)
    said = torch.stack([unpack(one, like=mean) for one in messages])
    left = wanted - said
    left[rank] += world_size * (mean - unpack(message, like=mean))  # my part's second rounding
    error.copy_(left.view_as(error))
    return torch.stack([unpack(one, like=mean) for one in from_all(message)]).view_as(gradient)


ways = {EXACT: exact, FEEDBACK: with_feedback, IN_PARTS: in_parts, FORGOTTEN: forgotten}
bit_curves = {name: train(rank, name, average) for name, average in ways.items()}

# %% tags=["nbval-ignore-output"]
from hpml.modules.m04_frameworks.lecture import one_bit

bit_trainings = one_bit.trainings(bits_sent, bit_curves)
publish_figure(
    "one bit for each gradient",
    one_bit.picture(bit_trainings, title=one_bit.title(bit_trainings)),
    "The same training on four ranks with four ways to average. Left: over steps. Right: over the bytes "
    "that a rank sends. Both axes of losses and that of bytes are logarithmic.",
)

# %% tags=["nbval-ignore-output"]
exact, kept, parts, lost = bit_trainings.values()
fewer = [exact.nbytes / one.nbytes for one in (kept, parts)]
seen = (
    f"after {len(exact.losses)} steps the loss, {exact.losses[0]:.2f} at first, is {exact.loss:.4f} "
    f"with float32, {kept.loss:.4f} and {parts.loss:.4f} with one bit and error feedback, "
    f"{lost.loss:.4f} without feedback"
)
conclude(
    one_bit.feedback_repairs(bit_trainings),
    f"**Answer.** To all: {fewer[0]:.0f} times fewer bytes. In parts: {fewer[1]:.0f} times (32 "
    f"without the one number for each message). And {seen}. What is rounded away is not lost: it comes "
    "with a later step.",
    f"{fewer[0]:.1f} and {fewer[1]:.1f} times fewer bytes, and {seen}.",
)

# %% [markdown]
# In theory too SGD with error feedback has the rate of convergence that it has without compression
# ([Karimireddy et al. 2019](https://arxiv.org/abs/1901.09847)). It costs memory: one more tensor for
# each gradient.
#
# An all-reduce of n bytes sends 2 (p − 1) / p · n on each of p ranks. In parts, both halves of that
# are 32 times smaller, on any number of ranks. To all, each rank sends (p − 1) n / 32: the gain is
# 64 / p, and on 64 ranks nothing is left of it. 1-bit Adam averages its momentum in parts, after some
# steps of plain Adam, and was tried on up to 256 GPUs
# ([Tang et al. 2021](https://arxiv.org/abs/2102.02888)). (Half precision is `hvd_compression` in
# module 05.)

# %% [markdown]
# ## 8. The frameworks on one map *(more)*
#
# The frameworks of the original slides beside those of today that this course uses or names. It is
# not all there is: PaddlePaddle, MindSpore, MLX and tinygrad, for example, have operators of their own
# too. *Developed* means here: a release in the two years before November 2026, when the table was made.
# Each row was looked up.
#
# *Predict: what share of them is still developed? Which ones that have operators and derivatives of
# their own?*

# %%
from IPython.display import Markdown

from hpml.modules.m04_frameworks.lecture import framework_ideas, frameworks, frameworks_picture

every = frameworks.frameworks()
left = sum(one.developed for one in every)
publish_figure(
    "frameworks over time",
    frameworks_picture.timeline_picture(
        every, title=f"{left} of {len(every)} frameworks are still developed"
    ),
    "From the first release to the end or to today; beside each bar what it splits, over what. An "
    "arrow names the framework that took up its code or its makers.",
)

# %%
found = frameworks.still_developed(every)
more = ", some to others as well" if found.elsewhere else ""
conclude(
    found.held,
    f"**Answer.** {found.left} of {len(every)}. Of the {found.base} in this table with operators and "
    f"derivatives of their own, {len(found.own)} are left: {frameworks.listed(found.own)}. The other "
    f"{found.added} are added to a framework, and all {found.added} to PyTorch{more}.",
    f"{found.left} of {len(every)}; of {found.added} added ones {found.for_pytorch} are for PyTorch.",
)

# %% [markdown]
# Operators of one's own need fast kernels for each new processor (lecture 02, section 5). What is
# added to a framework needs only a place to step in: a hook, an optimizer, a layer.
#
# ### Each one, and where communication gets in *(more)*
#
# *Predict: data parallel training splits the data. Which frameworks split more, the older or
# today's?*

# %%
display(Markdown(frameworks.table()))

# %%
split = frameworks.more_than_data(every)
seen = f"{split.once} of {split.gone} that ended, {split.now} of {split.left} that are developed"
conclude(
    split.held,
    f"**Answer.** Today's. Tensors or layers are split by {seen}. Module 07 shows how.",
    f"tensors or layers are split by {seen}.",
)

# %% [markdown]
# ### Where the ideas of the gone ones run *(more)*
#
# *Predict: which framework that ended left nothing behind?*

# %%
ideas = framework_ideas.ideas()
display(Markdown(framework_ideas.table(ideas, here="04_frameworks")))

# %%
lost = framework_ideas.without_idea(ideas, every)
lectures = ", ".join(sorted({one.notebook[:2] for one in ideas}))
conclude(
    not lost,
    f"**Answer.** None: all {split.gone} left one. Their {len(ideas)} ideas run in the lectures "
    f"{lectures} of this course. A framework ends; its ideas move on.",
    f"no section shows an idea of {', '.join(lost)}.",
)

# %% [markdown]
# ### Where the rows are from *(more)*
#
# The table is `src/hpml/modules/m04_frameworks/lecture/frameworks.csv`. A row that you can correct is a small change.

# %%
display(Markdown(frameworks.sources()))

# %% [markdown]
# ## 9. `tf.data` done right *(more)*
#
# A pipeline of `tf.data` is a graph too: each stage makes its elements from those of the stage
# before it, when the next one asks. The same stages in another order also run, and train. What
# differs is **when** something is drawn, kept and waited for. Below are orders that are often wrong,
# each seen in its samples. Module 05 has the images per second. These cells run in processes with
# TensorFlow, not in the notebook's own.
#
# ### What a cache keeps *(more)*
#
# *Predict: 400 images, 5 epochs, each image mirrored and shifted at random. How many different
# images does training see with `cache` before the augmentation, and how many with it after?*

# %% tags=["nbval-ignore-output"]
# %%ranks 1 --no-group --tensorflow --threads 2 --out distinct
import tensorflow as tf

from hpml.data import tfrecord
from hpml.frameworks.tf_augment import augment
from hpml.modules.m04_frameworks.lecture.tf_data_stages import distinct_images, image_files

AUTO = tf.data.AUTOTUNE  # as many at a time as pays
records = image_files(400).interleave(tf.data.TFRecordDataset, num_parallel_calls=AUTO)
images = records.map(tfrecord.parse, num_parallel_calls=AUTO)
before = images.cache().shuffle(400).map(augment, AUTO).batch(50).prefetch(AUTO)
after = images.map(augment, AUTO).cache().shuffle(400).batch(50).prefetch(AUTO)
distinct = {"before": distinct_images(before, 5), "after": distinct_images(after, 5)}

# %% tags=["nbval-ignore-output"]
before, after = distinct[0]["before"], distinct[0]["after"]
conclude(
    after == 400 and before > 400 * 4,
    f"**Answer.** 5 epochs of 400 images: {before:,} different ones with the cache before "
    f"the augmentation, {after:,} with the cache after it. There each epoch is the first one "
    "again, and no error is raised.",
    f"5 epochs of 400 images: {before:,} different ones with the cache before, {after:,} with the "
    "cache after. Draws may repeat, or an epoch was cut short.",
)

# %% [markdown]
# ### How far a sample moves *(more)*
#
# `shuffle(n)` has a buffer of n elements. It hands out one of them at random and puts the next
# element in its place. Files are often sorted, by class or by date.
#
# *Predict: 2,000 samples, sorted by their 10 classes, in batches of 50. How many classes has a batch
# after `shuffle(100)`? After `batch(50)`, then `shuffle(40)`, which holds all 40 batches?*

# %% tags=["nbval-ignore-output"]
# %%ranks 1 --no-group --tensorflow --out orders,twice
import tensorflow as tf

from hpml.modules.m04_frameworks.lecture.tf_data_stages import order

samples = tf.data.Dataset.range(2_000)
orders = {
    "shuffle(2000).batch(50)": order(samples.shuffle(2_000).batch(50)),
    "shuffle(100).batch(50)": order(samples.shuffle(100).batch(50)),
    "batch(50).shuffle(40)": order(samples.batch(50).shuffle(40)),
}
twice = {
    "shuffle, repeat": order(samples.shuffle(2_000).repeat(2).batch(50)),
    "repeat, shuffle": order(samples.repeat(2).shuffle(2_000).batch(50)),
}

# %% tags=["nbval-ignore-output"]
from hpml.modules.m04_frameworks.lecture import sample_order, tf_data_threads

forward = sample_order.most_forward(orders[0]["shuffle(100).batch(50)"])
publish_figure(
    "how far a sample moves",
    sample_order.picture(
        orders[0], f"With a buffer of 100, no sample comes {forward + 1} places early"
    ),
    "Each point is a sample. On the line it has not moved; above it, it comes before its turn. Only "
    "a buffer for all samples lets every sample come anywhere.",
)

# %% tags=["nbval-ignore-output"]
found = sample_order.shuffled(orders[0].values(), buffer=100, batch=50)
conclude(
    found.held,
    f"**Answer.** With a buffer of 100 no sample comes more than {found.forward} places before its "
    f"turn, though one comes {found.late} places after it. In files that are sorted by class a batch "
    f"of 50 then has {found.near:.1f} of the 10 classes in the mean, {found.whole:.1f} where batches "
    f"are shuffled, and {found.mixed:.1f} with a buffer for all.",
    f"with a buffer of 100 samples came up to {found.forward} places early and {found.late} late, and "
    f"batches had {found.mixed:.1f}, {found.near:.1f} and {found.whole:.1f} classes: too few samples "
    "to see a difference.",
)

# %% [markdown]
# A data set too large for such a buffer is shuffled twice: its files in another order in each epoch,
# and a large buffer for what several files give in turn.
#
# *Predict: two epochs in one run. With `repeat(2)` before `shuffle(2000)`, are the first 2,000
# samples all different?*

# %% tags=["nbval-ignore-output"]
right, wrong = (len(set(epochs[:2_000].tolist())) for epochs in twice[0].values())
conclude(
    right == 2_000 > wrong,
    f"**Answer.** Repeated first, the first 2,000 samples are {wrong:,} different ones: "
    f"{2_000 - wrong:,} have not come yet, and as many have come twice. Shuffled first, all "
    f"{right:,} are different.",
    f"the first 2,000 samples are {right:,} and {wrong:,} different ones.",
)

# %% [markdown]
# ### What is made ahead, and what a call costs *(more)*
#
# *Predict: the first batch of 50 is being computed on. How many more images has the pipeline made
# meanwhile, with `prefetch` last, first, and without one? And does it matter for the processor
# whether a function that scales pixels is mapped before `batch` or after it?*

# %% tags=["nbval-ignore-output"]
# %%ranks 1 --no-group --tensorflow --out made,costs
import tensorflow as tf

from hpml.modules.m04_frameworks.lecture.tf_data_stages import (
    course_images,
    made_ahead,
    processor_seconds,
)

number = tf.data.Dataset.range(1_000)
made = {
    "last": made_ahead(lambda make: number.map(make).batch(50).prefetch(2), 50),
    "first": made_ahead(lambda make: number.prefetch(2).map(make).batch(50), 50),
    "none": made_ahead(lambda make: number.map(make).batch(50), 50),
}


def scale(pixels, label):
    return tf.cast(pixels, tf.float32) / 255 - 0.5, label


images = course_images(1_000).cache()
costs = {
    "map, batch": processor_seconds(images.map(scale).batch(50)),
    "batch, map": processor_seconds(images.batch(50).map(scale)),
}

# %% tags=["nbval-ignore-output"]
last, first, none = (made[0][place] for place in ("last", "first", "none"))
conclude(
    last >= 50 > max(first, none),
    f"**Answer.** While the first batch of 50 is computed on, {last} more images are made with "
    f"`prefetch` at the end, {first} with `prefetch` at the beginning, and {none} without one: "
    "it keeps elements of the stage before it, and only at the end these are batches.",
    f"{last} images were made ahead with `prefetch` at the end, {first} with it at the "
    f"beginning, {none} without: a busy machine did not get to the second batch in time.",
)
single, batched = (1e6 * seconds / 1_000 for seconds in costs[0].values())
conclude(
    single > 1.5 * batched,
    f"An image takes {single:.0f} µs of processor time where each is scaled by itself, and "
    f"{batched:.0f} µs in a batch: {single / batched:.1f} times less, for as many pixels. The "
    "rest was the price of starting operators.",
    f"an image takes {single:.0f} µs by itself and {batched:.0f} µs in a batch: here other "
    "work than starting operators takes most of the time.",
)

# %% [markdown]
# ### In order, or as ready *(more)*
#
# Two calls of a parallel map run at a time, and one call in eight takes long.
#
# *Predict: are the results in order? And with `deterministic=False`?*

# %% tags=["nbval-ignore-output"]
# %%ranks 1 --no-group --tensorflow --threads 2 --out ready
import tensorflow as tf

from hpml.modules.m04_frameworks.lecture.tf_data_stages import order, sometimes_slow

numbers = tf.data.Dataset.range(80)
ready = {
    str(kept): order(numbers.map(sometimes_slow, 2, deterministic=kept).batch(10))
    for kept in (True, False)
}

# %% tags=["nbval-ignore-output"]
kept, free = (sum(number != place for place, number in enumerate(one)) for one in ready[0].values())
conclude(
    kept == 0 < free,
    f"**Answer.** Deterministic, all 80 results come in order, and wait for the slow ones. With "
    f"`deterministic=False` {free} of 80 come at another place, as they are ready; "
    "after a shuffle that does no harm, but a seed no longer repeats the order.",
    f"{kept} results out of order with `deterministic=True`, {free} with False: one at a time, none "
    "can overtake.",
)

# %% [markdown]
# ### Whose threads? *(more)*
#
# Module 02 tried OpenMP's settings. TensorFlow has two pools of its own: **intra-op**, for parts of
# one operator, and **inter-op**, for operators side by side. A pipeline may have one too:
# `tf.data.Options().threading.private_threadpool_size`. The first ones are read once, when TensorFlow
# starts, so each setting below is tried in processes of its own.
#
# *Predict: `map` is allowed 8 parallel calls. Which settings decide how many really run at once?*

# %% tags=["nbval-ignore-output"]
threads_tried = tf_data_threads.compare()
print(tf_data_threads.table(threads_tried))

# %% tags=["nbval-ignore-output"]
found = tf_data_threads.at_once(threads_tried)
sizes, own = (", ".join(map(str, numbers)) for numbers in (found.own, found.own.values()))
conclude(
    found.held,
    f"**Answer.** Whatever `inter_op`, `intra_op` and `OMP_NUM_THREADS` are, {found.shared} calls "
    f"ran at once, on {found.cores} cores: a pool with a thread for each. Only "
    f"`private_threadpool_size` changes it: with {sizes} threads, {own} calls.",
    "the calls at once were "
    + "; ".join(f"{one.at_once} with {setting}" for setting, one in threads_tried.items())
    + ". Either a busy machine did not begin a call in time, or this TensorFlow uses its "
    "threads otherwise.",
)
gain = tf_data_threads.gain(threads_tried)
conclude(
    gain.held,
    f"Augmented for real, {gain.threads} threads make {gain.times:.1f} times as many images per "
    f"second as one, on {found.cores} cores.",
    f"augmented for real, {gain.threads} threads made {gain.times:.2f} times as many images per "
    f"second as one, on {found.cores} cores: other programs had some of them.",
)

# %% [markdown]
# The exercise `tf_input_pipeline` puts all of it together: what is the same in each epoch stands
# before `cache`, what is new after it, and what is made ahead at the end.

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
from hpml.modules.m04_frameworks.lecture import onnx_export, onnx_speed

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
    publish_figure(
        "the beginning of the network in ONNX",
        onnx_export.first_picture(in_onnx, "Add", "No layers any more: operators and weights"),
        "From the images to the end of the first stage. W, B, scale: an operator's weights, with "
        "their shapes. The network's convolutions have no bias (B) in PyTorch.",
    )

# %%
if in_onnx:
    found = onnx_export.folded(trained, in_onnx)
    conclude(
        found.held,
        f"**Answer.** All {found.convolutions} convolutions, and {found.left} of the {found.norms} "
        "batch normalisations. A trained one only scales and shifts each channel. Where it followed a "
        f"convolution, the exporter multiplied the scale into the weights ({found.scaled} times, "
        f"checked number by number). The other {found.left} follow a pooling and stayed.",
        f"{found.left} of {found.norms} batch normalisations are left, {found.scaled} are in weights: "
        "another version of the exporter folds others.",
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
    answers = onnx_export.answers(trained, running, unseen, [1, 99, 400])

# %% tags=["nbval-ignore-output"]
if in_onnx:
    images = len(unseen)
    conclude(
        answers.nearly_equal,
        f"**Answer.** No, but nearly: the same class for all {images} images, in batches of "
        f"1, 99 and 400. The logits differ by {answers.difference:.0e} at most, where the largest is "
        f"{answers.largest:.1f}; {answers.same_bits:.0%} of them agree in every bit, for another "
        "library may add in another order.",
        f"{images - answers.same_class} of {images} images got another class, the logits differ by "
        f"{answers.difference:.0e}. With 0 and 0 this machine's libraries add in the same order; "
        "else look for an operator that was translated wrongly.",
    )

# %% [markdown]
# *Predict: which is faster with one image, and with 64? By how much?* Each gets one thread, and they
# take turns.

# %% tags=["nbval-ignore-output"]
if in_onnx:
    forward_speeds = onnx_speed.compare(trained, running)
    gains = forward_speeds.gains
    print(forward_speeds)
    publish_figure(
        "PyTorch and ONNX Runtime, forward",
        onnx_speed.speeds_picture(
            forward_speeds,
            f"The runtime gains {gains.alone.factor:.1f} times with one image; the layout {gains.layout.factor:.1f} "
            "times with 64",
        ),
        "Images per second of processor time, forward only, one thread, median of the rounds.",
    )

# %% tags=["nbval-ignore-output"]
if in_onnx:
    seen = (
        f"With 1 image, ONNX Runtime is {gains.alone} times as fast as PyTorch in its "
        f"usual layout, and {gains.fair_few} times as fast as PyTorch in `channels_last`. "
        f"With 64 images, that layout alone makes PyTorch {gains.layout} times as fast, "
        f"and ONNX Runtime is {gains.fair_many} times as fast as that."
    )
    conclude(
        gains.held,
        f"**Answer.** {seen} A runtime that knows the whole graph makes no Python call for "
        "each operator: that gain shrinks as the batch grows. And it chooses the layout, as "
        "you may. Ask of every such figure beside what it was measured.",
        f"{seen} Which one wins depends on the processor, and on which of its instructions "
        "each library uses.",
    )

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

# %%
if in_onnx:
    found = onnx_export.branches(Both(), both, number=1, other=-1)
    conclude(
        found.held,
        f"**Answer.** With `torch.cond` there is {found.ifs} operator `If`, and both of its branches "
        "answer as in PyTorch. The branch on the number is gone, with no warning: the file does "
        "what 1 asked for, also where you meant -1. Any Python that runs during the export is "
        "frozen.",
        f"{found.ifs} operators `If`; equal to PyTorch with 1: {found.same}, with -1: "
        f"{found.same_with_other}.",
    )
    left = onnx_export.left_out(trained, trainer, in_onnx)
    conclude(
        left.held,
        f"The file predicts, and cannot go on training: the optimizer's momentum ({left.momentum:,} "
        f"numbers) is not in it, {left.statistics:,} statistics of batch normalisations are inside "
        "weights now, and there is no loss and no derivative. Keep the framework's own checkpoint "
        "too.",
        f"{left.momentum:,} numbers of the optimizer and {left.statistics:,} statistics are missing; "
        f"operators for training: {', '.join(left.training) or 'none'}.",
    )

# %% [markdown]
# ## 11. On the cluster *(more)*
#
# Does `torch.compile` pay on *your* node, with your batch? `slurm/04_eager_compiled.slurm` measures
# it: for each batch size the same training step, eager and compiled, in turn. Both must come to the
# same loss. Nothing is taken from an earlier compilation.
#
# ```
# sbatch slurm/04_eager_compiled.slurm
# sbatch slurm/04_eager_compiled.slurm --batches 1,64,1024
# ```
#
# The log has a line for each: images/s, how many times as fast as eager, the seconds of the first
# step, and after how many steps compiling has paid. A table and a picture are in `build/jobs/NUMBER`.
#
# *Predict: a compiled step takes 60 s to compile and then 80 ms, an eager one 100 ms. How many steps
# until it pays?*

# %%
from hpml.bench.eager_compiled_timings import Timing, break_even

steps = break_even(Timing([0.100], first=0.1), Timing([0.080], first=60.1))

# %%
conclude(
    round(steps) == 3000,
    f"**Answer.** {steps:,.0f} steps: 60 s, divided by the 20 ms that each step gains. A long "
    f"run is there after {(60 + steps * 0.080) / 60:.0f} minutes; each run of a search over many "
    "short ones, never.",
    f"{steps:,.0f} steps.",
)

# %% [markdown]
# On a GPU (`slurm/04_eager_compiled_gpu.slurm`) there is a third way, `mode="reduce-overhead"`.
# Python puts kernels into a queue, one by one. With small batches the GPU is done before the next
# one arrives. This mode records all kernels of a graph once, as a CUDA graph, and then starts them
# with one call. It needs more memory, and is not always possible
# ([torch.compile](https://docs.pytorch.org/docs/stable/generated/torch.compile.html)). The clock is
# read after `torch.cuda.synchronize()`: before it, kernels are only in the queue.
#
# This was not recorded on a GPU.

# %% tags=["nbval-ignore-output"]
import shutil

if not shutil.which("sbatch"):
    skip("eager against compiled", "there is no SLURM here; slurm/04_*.slurm are what you submit")

# %% [markdown]
# ## What to take home
#
# 1. Eager code runs line by line. If you want to rewrite a computation, you need the whole of it: a
#    graph (section 1).
# 2. Backward walks over the graph from the loss to the inputs, once for all parameters (2).
# 3. An optimizer is a rule and a memory: Adam remembers two numbers for each parameter (4).
# 4. Each operator has a price before it computes. Larger batches share it, fusion avoids it (5).
# 5. Gradients are ready one after the other, the last layer's first. A hook at that moment is where
#    communication gets in (6).
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

# %% [markdown]
# ## Where next
#
# The [exercises](../exercises/04_frameworks.ipynb) of this module: first `autodiff`, `gradient_hooks`; for the evening `optimizers`, `static_graph`, `tf_input_pipeline`.
