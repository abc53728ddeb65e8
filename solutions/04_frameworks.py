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
# # 04 Inside the frameworks: exercises
#
# In these exercises you write what a framework does for you: derivatives, an optimizer, memory freed
# in time, gradients on their way while others are still being computed, and an input pipeline.
#
# Each exercise has an answer cell, which starts with `%%answer`, and a check below it. **An answer
# cell stands alone**: it brings its own imports and sees nothing of the other cells. The cells below
# it can use what it defines; where two answers define the same name, the one that was run last
# counts. The check runs the answer with new inputs each time, in `gradient_hooks` on several numbers
# of ranks, and reports which claims hold. Check as often as you like; a wrong answer costs nothing.
# *Before you start* is a question to think about first; its answer is below the check.
#
# Stuck? `check.hint()` in a cell of your own gives a hint, and each time the next one.
#
# An answer may import Python's standard library, `numpy`, `torch` and `tqdm`; in `tf_input_pipeline`
# also `tensorflow` and `keras`. Nothing else, and nothing of `hpml`.

# %%
# %load_ext hpml
from hpml import check

# %% [markdown]
# ## `autodiff`: the walk back over a graph
#
# **To write:** two derivatives, and the walk back over a graph. **Not allowed:** `torch.autograd`
# and what uses it (`Tensor.backward`, `torch.func`), other programs. **Allowed:** everything else
# that an answer may import.
#
# In the lecture a tape gave the order. PyTorch has no tape: each result knows the operation that
# made it and its inputs, and `backward` gets only the loss. Write such a `backward(loss)` for numpy
# arrays. The classes and the other derivatives are there.
#
# - `node.op` is `"leaf"` or an operation, `node.inputs` the nodes it was computed from (perhaps the
#   same one twice), `node.value` a float64 array with any number of dimensions. The loss is one
#   number, of shape `()`.
# - `matmul_vjp` and `relu_vjp` get `g`, the gradient of the node's value, then that value, then the
#   inputs' values. They return a tuple of gradients, one for each input. Matrices have two
#   dimensions; at 0 the derivative of relu is 0, as in torch.
# - `backward` sets `node.grad`: a float64 array of the **shape of the node's value**, for the loss
#   (`1.0`), for leaves, and for all that is between.
# - **Uses add up.** And `VJPS` knows nothing of the following:
# - `add` and `mul` **broadcast**, as numpy does: `(n, m)` with `(m,)`, `(n, 1)`, `()` and the like.
#   Their vjps then give the gradient of the broadcast array.
# - Where `requires_grad` is False, `grad` stays None, and nothing behind that node gets a gradient by
#   this way. Constants have it, what is computed from constants alone, and `detach`. Operations that
#   are not in `VJPS` (`floor`, `detach`) occur only there. A node that requires a gradient and has no
#   other way to the loss keeps None, too.
# - A vjp may return one array twice, or a view that cannot be written to.
# - A graph may be **5000 operations deep**: no recursion, and the recursion limit stays. And each
#   node passes its gradient on **once**: a graph of 160 nodes can have 2^40 paths.
#
# An example: `x = [1, 2]` and `b = 3` (shape `()`) are leaves, `y = mul(x, b)`, `z = add(y, x)`,
# `loss = sum(z)`. Then `z.grad` and `y.grad` are `[1, 1]`; `x.grad` is `[3, 3] + [1, 1]`, from its
# two uses; and `b.grad` is `1·1 + 1·2 = 3`: its copies met both elements of `x`.
#
# *Before you start: someone visits the loss first, then its inputs, then theirs, each node when it
# is first found (breadth first), and lets it pass its gradient on at once. In the example that is
# `loss`, `z`, `y`, `x`, `b`, and it is right. Put one more node in, so that it is wrong.*


# %%
# %%answer autodiff
from collections import Counter
from dataclasses import dataclass

import numpy as np


@dataclass(eq=False)
class Node:
    """A value in a graph, and the operation that made it."""

    op: str
    inputs: tuple["Node", ...]
    value: np.ndarray
    requires_grad: bool
    grad: np.ndarray | None = None


def matmul_vjp(g, out, a, b):
    """The gradients of a, (n, k), and b, (k, m), from g, that of out = a @ b, (n, m)."""
    ### BEGIN SOLUTION
    return g @ b.T, a.T @ g
    ### END SOLUTION


def relu_vjp(g, out, a):
    """A tuple of one: the gradient of a from g, that of out = max(a, 0)."""
    ### BEGIN SOLUTION
    return (g * (a > 0),)
    ### END SOLUTION


VJPS = {
    "add": lambda g, out, a, b: (g, g),
    "mul": lambda g, out, a, b: (g * b, g * a),
    "tanh": lambda g, out, a: (g * (1 - out * out),),
    "sum": lambda g, out, a: (np.broadcast_to(g, a.shape),),
    "matmul": matmul_vjp,
    "relu": relu_vjp,
}


def backward(loss: Node) -> None:
    """Set `grad` on each node that requires a gradient and gets one, `loss` among them."""
    ### BEGIN SOLUTION
    uses = Counter()
    found = {loss}
    stack = [loss]
    while stack:
        for node in stack.pop().inputs:
            if node.requires_grad:
                uses[node] += 1
                if node not in found:
                    found.add(node)
                    stack.append(node)
    loss.grad = np.ones(())
    ready = [loss]  # all their uses have passed a gradient on
    while ready:
        user = ready.pop()
        if user.op == "leaf":
            continue
        gradients = VJPS[user.op](user.grad, user.value, *[node.value for node in user.inputs])
        for node, gradient in zip(user.inputs, gradients, strict=True):
            if not node.requires_grad:
                continue
            gradient = sum_to(gradient, node.value.shape)
            node.grad = gradient if node.grad is None else node.grad + gradient
            uses[node] -= 1
            if uses[node] == 0:
                ready.append(node)


def sum_to(gradient, shape):
    """The gradient of a value of this shape, from that of its broadcast copies."""
    gradient = gradient.sum(axis=tuple(range(gradient.ndim - len(shape))))
    repeated = tuple(axis for axis, length in enumerate(shape) if length == 1)
    return gradient.sum(axis=repeated, keepdims=True)
    ### END SOLUTION


# %%
check("autodiff")

# %% [markdown]
# **Answer.** A node that makes one way longer than another: `w = tanh(y)` and then `z = add(y, w)`.
# Breadth first visits `z`, then `y` and `w`: `y` passes its gradient on before `w` has added to it.
# What counts is not the distance from the loss but whether all users are done. The solution counts
# them first, and a node's turn comes when none is left: Kahn's topological sort
# ([1962](https://doi.org/10.1145/368996.369025)), against the arrows. PyTorch's engine does the same:
# `compute_dependencies` in
# [engine.cpp](https://github.com/pytorch/pytorch/blob/main/torch/csrc/autograd/engine.cpp).
#
# The order of a depth-first search is right, too, if a node comes into the list *after* all its
# inputs (postorder), and the list is then walked from its end. A node that is listed when it is
# first met (preorder) comes too early.

# %% [markdown]
# ## `gradient_hooks`: each gradient leaves when it is ready
#
# **To write:** the hooks, and the function that waits for their messages. **Not allowed:**
# `DistributedDataParallel` and its like (`fully_shard`, `replicate`). **Allowed:** everything else
# that an answer may import, hooks of autograd and collectives too.
#
# Each rank has the same model, and a share of the batch. The plain way to average gradients is one
# `all_reduce` for each, when backward is over: the network is idle while the processor computes, and
# the other way round. But backward computes the gradient of the *last* layer first.
#
# Write `hook_gradients(model)`. It is called once on each rank, before the first step, and returns a
# function `finish`. In each step the training loop calls `model.zero_grad()`, then `loss.backward()`
# once, then `finish()`. When `finish` returns, the `grad` of each trained parameter is the mean over
# all ranks of their gradients of this step.
#
# - **When it is ready.** `parameter.register_post_accumulate_grad_hook(f)` has backward call
#   `f(parameter)` as soon as `parameter.grad` is complete. Each gradient is one message, in its own
#   dtype: an `all_reduce` with `async_op=True`, which returns at once, with a handle to wait for.
# - **No hook waits.** Backward goes on while messages travel, also when another rank is late. `finish`
#   waits for all of them.
# - **One order on all ranks.** Collectives match by order: the first call on one rank meets the first
#   call on the others. This model adds up two branches, and ranks may go over them in different
#   orders (as over a Python `set`), so that gradients become ready in different orders too. All ranks
#   start their messages in this order: the parameters of `model.parameters()`, last one first. A
#   gradient that is ready before its turn leaves as soon as its turn has come.
#
# A **tied** weight (one tensor under two names) is one parameter: `parameters()` lists it once, and
# its gradient is complete when both parts have been added up. A **frozen** parameter
# (`requires_grad=False`) takes no hook and has nothing to send. Each trained parameter gets a gradient
# on every rank in every step. After `zero_grad`, `grad` is `None` in some steps; in others it is the
# tensor of the step before, filled with zeros. All ranks start with the same weights, and their
# shares are equally large.
#
# For parameters `a`, `b`, `c` (in the order of `parameters()`) on two ranks:
#
# | rank 0: ready | starts | rank 1: ready | starts |
# |---|---|---|---|
# | `c` | `c` | `b` | nothing: `c` comes first |
# | `b` | `b` | `c` | `c`, then `b` |
# | `a` | `a` | `a` | `a` |
#
# *Before you start: a model has 100 gradients. To compute one takes 1 ms, to send one takes 1 ms, and
# the network sends one at a time. How long do backward and sending take if each hook waits for its
# message? And if none waits?*

# %%
# %%answer gradient_hooks
from collections.abc import Callable

import torch
import torch.distributed as dist
from torch import nn


def hook_gradients(model: nn.Module) -> Callable[[], None]:
    """Have each gradient of `model` averaged over the ranks, on its way as soon as it is ready.

    Returns `finish`, to be called after each backward: when it returns, every trained parameter's
    `grad` is the mean over the ranks. Messages leave in the order of `model.parameters()`, last one
    first, and no hook waits for one.
    """
    ### BEGIN SOLUTION
    # parameters() lists a tied weight once.
    order = [p for p in reversed(list(model.parameters())) if p.requires_grad]
    ready: set[nn.Parameter] = set()
    in_flight: list[tuple[torch.Tensor, dist.Work]] = []

    def send_in_turn(parameter: nn.Parameter) -> None:
        ready.add(parameter)
        # The one whose turn it is, and those behind it that have waited for their turn
        while len(in_flight) < len(order) and order[len(in_flight)] in ready:
            gradient = order[len(in_flight)].grad
            in_flight.append((gradient, dist.all_reduce(gradient, async_op=True)))

    def finish() -> None:
        for gradient, work in in_flight:
            work.wait()
            gradient /= dist.get_world_size()
        ready.clear()
        in_flight.clear()

    for parameter in order:
        parameter.register_post_accumulate_grad_hook(send_in_turn)
    return finish
    ### END SOLUTION


# %%
check("gradient_hooks")

# %% [markdown]
# **Answer.** If each hook waits, 200 ms: nothing happens at the same time, and it is no better than to
# send everything after backward. If none waits, 101 ms: while one gradient travels the next one is
# computed, and only the last message has nothing to hide behind. In practice 100 messages also cost
# 100 latencies: that is what *buckets* are for (module 06).

# %% [markdown]
# ## `optimizers`: three rules, step for step
#
# **To write:** the three classes. **Not allowed:** `torch.optim`, fused steps (`torch._fused_adam_`),
# other programs. **Allowed:** everything else that an answer may import.
#
# Write SGD with Nesterov's momentum, Adam and AdamW, so that 20 steps of each end where those of
# `torch.optim` do. Each class gets a list of parameters: leaf tensors of any shape (some have no
# dimension), in float32 or float64, with `requires_grad`. `step()` reads the gradients from `p.grad`.
#
#     optimizer = Adam(params, lr=0.1, betas=(0.9, 0.99), eps=1e-8, weight_decay=0.0)
#     ...                     # gradients come into p.grad
#     optimizer.step()        # all parameters are changed in place
#     optimizer.lr = 0.01     # holds from the next step on
#
# *g* is the gradient of a parameter *p*, *λ* is `weight_decay`, and *t* counts the steps of this
# parameter from 1. Buffers begin at 0.
#
# | rule | state, for each parameter | step |
# |---|---|---|
# | `NesterovSGD` | *d* = *g* + *λp*; *b* ← *μb* + *d* | *p* ← *p* − lr (*d* + *μb*), *μ* is `momentum` |
# | `Adam` | *d* = *g* + *λp*; *m* ← *β₁m* + (1 − *β₁*) *d*; *v* ← *β₂v* + (1 − *β₂*) *d*² | *p* ← *p* − lr *m̂* / (√*v̂* + *ε*), with *m̂* = *m* / (1 − *β₁ᵗ*), *v̂* = *v* / (1 − *β₂ᵗ*) |
# | `AdamW` | the same with *d* = *g* | first *p* ← (1 − lr *λ*) *p*, then the step of Adam |
#
# For example, one parameter 1.0, `lr=0.1`, no decay, and the gradients 1 and then 3.
# `NesterovSGD` with `momentum=0.5`: *b* = 1, *p* = 1 − 0.1 · 1.5 = 0.85; then *b* = 3.5, *p* = 0.85 −
# 0.1 · 4.75 = 0.375. `Adam` with `betas=(0.5, 0.5)` and `eps=0`: *m̂* = *v̂* = 1, *p* = 0.9; then *m* =
# 1.75, *v* = 4.75, divided by 0.75, *p* = 0.9 − 0.1 · 2.333 / 2.517 = 0.807.
#
# Further:
#
# - A parameter whose `p.grad` is None is left alone in this step: its value, its buffers, its count.
#   It may get its first gradient later than the others, or never.
# - Parameters change in their own memory, where views of them see it. No autograd graph is recorded.
# - `p.grad` is not changed, and not kept: the next gradient may be written into the same tensor.
# - Numbers are compared with those of `torch.optim`: in float32 to 1e-4, in float64 to 1e-9 of the
#   largest number of the parameter, or of 1. So state has the dtype of its parameter.
#
# *Before you start: `lr` is 0.1, and `eps` is tiny. How far does Adam move a weight in its very first
# step if its gradient is 0.001? And if it is 1000?*

# %%
# %%answer optimizers
import torch
from torch import Tensor


class NesterovSGD:
    """SGD with Nesterov's momentum. `lr` may be changed between steps."""

    def __init__(self, params: list[Tensor], lr: float, momentum: float, weight_decay: float):
        ### BEGIN SOLUTION
        self.params, self.lr = params, lr
        self.momentum, self.weight_decay = momentum, weight_decay
        self.buffers = [torch.zeros_like(p) for p in params]
        ### END SOLUTION

    def step(self) -> None:
        """Change each parameter in place by its `p.grad`."""
        ### BEGIN SOLUTION
        with torch.no_grad():
            for p, buffer in zip(self.params, self.buffers, strict=True):
                if p.grad is None:
                    continue
                d = p.grad + self.weight_decay * p
                buffer.mul_(self.momentum).add_(d)
                p.sub_(self.lr * (d + self.momentum * buffer))
        ### END SOLUTION


class Adam:
    """Adam, with weight decay in the gradient. `lr` may be changed between steps."""

    def __init__(
        self,
        params: list[Tensor],
        lr: float,
        betas: tuple[float, float],
        eps: float,
        weight_decay: float,
    ):
        ### BEGIN SOLUTION
        self.params, self.lr = params, lr
        self.betas, self.eps, self.weight_decay = betas, eps, weight_decay
        self.means = [torch.zeros_like(p) for p in params]
        self.squares = [torch.zeros_like(p) for p in params]
        self.steps = [0] * len(params)
        ### END SOLUTION

    def step(self) -> None:
        """Change each parameter in place by its `p.grad`."""
        ### BEGIN SOLUTION
        with torch.no_grad():
            for number, p in enumerate(self.params):
                if p.grad is not None:
                    d = p.grad + self.weight_decay * p
                    p.sub_(self.moved(number, d))

    def moved(self, number, d):
        """What is taken from parameter `number`; its state is updated with d."""
        first, second = self.betas
        mean, square = self.means[number], self.squares[number]
        self.steps[number] += 1
        t = self.steps[number]
        mean.mul_(first).add_(d, alpha=1 - first)
        square.mul_(second).add_(d * d, alpha=1 - second)
        root = (square / (1 - second**t)).sqrt()
        return self.lr * (mean / (1 - first**t)) / (root + self.eps)
        ### END SOLUTION


class AdamW:
    """Adam, with weight decay beside the gradient. `lr` may be changed between steps."""

    def __init__(
        self,
        params: list[Tensor],
        lr: float,
        betas: tuple[float, float],
        eps: float,
        weight_decay: float,
    ):
        ### BEGIN SOLUTION
        self.adam = Adam(params, lr, betas, eps, 0.0)
        self.params, self.lr, self.weight_decay = params, lr, weight_decay
        ### END SOLUTION

    def step(self) -> None:
        """Change each parameter in place by its `p.grad`."""
        ### BEGIN SOLUTION
        self.adam.lr = self.lr
        with torch.no_grad():
            for number, p in enumerate(self.params):
                if p.grad is not None:
                    p.mul_(1 - self.lr * self.weight_decay)
                    p.sub_(self.adam.moved(number, p.grad))
        ### END SOLUTION


# %%
check("optimizers")

# %% [markdown]
# **Answer.** By 0.1 in both cases. In the first step *m̂* is the gradient and √*v̂* its size, so their
# ratio is its sign. Multiply the loss by 1000, and Adam takes the same steps (as long as *ε* is small
# beside √*v̂*). Without bias correction the first *m* / √*v* would be (1 − *β₁*) / √(1 − *β₂*) = 3.2
# with the usual 0.9 and 0.999: *m* is too small, but √*v* even more, so the step would be too long.

# %% [markdown]
# ## `static_graph`: little memory for a recorded graph
#
# **To write:** a plan that frees each tensor in time, and an order that needs less. **Allowed:**
# anything that an answer may import.
#
# A framework that has the whole graph before it runs can plan its memory: it knows which node reads
# a tensor last. You are given graphs as plain data, and write two functions. The check executes
# what they return, and counts the bytes that are alive while each node runs.
#
# ```python
# graph = {
#     "nodes": [
#         {"name": "linear", "inputs": ["batch", "weight"], "bytes": 800, "view": False},
#         {"name": "relu",   "inputs": ["linear"],          "bytes": 800, "view": False},
#         {"name": "flat",   "inputs": ["linear"],          "bytes": 0,   "view": True},
#         {"name": "debug",  "inputs": ["relu"],            "bytes": 800, "view": False},
#         {"name": "loss",   "inputs": ["relu", "flat"],    "bytes": 4,   "view": False},
#     ],
#     "given": ["batch", "weight"],
#     "outputs": ["loss"],
# }
# ```
#
# - **A node** reads its inputs, and makes one tensor of `bytes`, which has the node's name. Inputs
#   are nodes or given tensors; one may be there twice (`x * x`). `nodes` is in the recorded order,
#   in which each node comes after its inputs. While a node runs, its inputs and its output are
#   alive.
# - **Given** tensors (the batch, the weights) belong to the caller: they are always there, are not
#   counted, and are neither run nor freed.
# - **Outputs** are handed to the caller at the end, so they are never freed. Other nodes may read
#   them as well.
# - **A view** (`view` is true) has no memory of its own: it lies in the memory of its first input,
#   which may itself be a view. So a view runs, but is never freed. The tensor whose memory it is in,
#   its *base*, must not be freed before the last node has read the base or a view of it.
#
# **1.** `plan(graph)` returns a list of steps `("run", name)` and `("free", name)`:
#
# - Nodes run in the recorded order, each once. Those on which no output depends do not run.
# - Everything that is not an output (nor an output's base) has been freed at the end, once.
# - The peak, the most bytes alive while some node runs, is the least possible for this order.
#
# One right plan for the graph above: run `linear`, run `relu`, run `flat`, run `loss`, free `relu`,
# free `linear`. `debug` does not run. Its peak is 800 + 800 + 4 bytes.
#
# **2.** `order(graph)` returns the names of all nodes in an order of your choice, each node after its
# inputs. The check plans this order as well as possible. These graphs are *trees*: what a node makes
# is read by one other node, there is one output, and no views. The recorded order is a bad one: all
# branches grow at a time. Yours must need less than it. For the last claim, it must need no more
# than the best of all orders that finish a branch (a node and all nodes that it depends on) before
# they begin the next.
#
# There are eight graphs to plan, the last of them recorded from the course's network: forward, loss
# and backward. Trees have up to 100 nodes.
#
# *Before you start: two branches are to be added up. While it runs, A needs 100 MB at most, and
# leaves 90 MB; B needs 80 MB and leaves 10 MB. Which one runs first?*


# %%
# %%answer static_graph
def plan(graph: dict) -> list[tuple[str, str]]:
    """Steps ("run", name) and ("free", name) with the least peak, in the recorded order."""
    ### BEGIN SOLUTION
    base = {name: name for name in graph["given"]}
    for node in graph["nodes"]:
        base[node["name"]] = base[node["inputs"][0]] if node["view"] else node["name"]
    needed = set(graph["outputs"])
    for node in reversed(graph["nodes"]):
        if node["name"] in needed:
            needed.update(node["inputs"])
    kept = {base[name] for name in [*graph["given"], *graph["outputs"]]}

    steps, freed = [], set(kept)
    for node in reversed(graph["nodes"]):  # from the end: the first use that is met is the last
        if node["name"] not in needed:
            continue
        last_read = {base[name] for name in node["inputs"]} - freed
        freed |= last_read
        steps += [("free", name) for name in sorted(last_read)]
        steps.append(("run", node["name"]))
    return steps[::-1]
    ### END SOLUTION


def order(graph: dict) -> list[str]:
    """The names of all nodes of a tree, each after its inputs, in an order with a small peak."""
    ### BEGIN SOLUTION
    nodes = {node["name"]: node for node in graph["nodes"]}

    def branch(name):
        """The peak of a branch, what it leaves, and its order."""
        own = nodes[name]["bytes"]
        inputs = [branch(one) for one in nodes[name]["inputs"] if one in nodes]
        inputs.sort(key=lambda found: found[0] - found[1], reverse=True)
        peak = before = 0
        names = []
        for highest, left, inner in inputs:
            peak = max(peak, before + highest)
            before += left
            names += inner
        return max(peak, before + own), own, [*names, name]

    (output,) = graph["outputs"]
    return branch(output)[2]
    ### END SOLUTION


# %%
check("static_graph")

# %% [markdown]
# **Answer.** B. A first: 100 MB, then 90 + 80 = 170 MB. B first: 80 MB, then 10 + 100 = 110 MB. What
# decides is how much of its peak a branch gives back: the one with the largest *peak − what is left*
# goes first. Sethi and Ullman chose the order of an expression's operands in this way, to need few
# registers ([1970](http://projects.csail.mit.edu/jacm/References/sethiu1970:715.html)). An order that
# leaves a branch unfinished, and comes back to it, can need less still: for trees the best one is
# found in polynomial time too
# ([Jacquelin and others](http://perso.ens-lyon.fr/bora.ucar/abstracts/jmru.html)). Where a value is
# read by several nodes, the best order is hard to find
# ([JACM 27(1), 1980](https://experts.arizona.edu/en/publications/efficient-computation-of-expressions-with-common-subexpressions)).
#
# The plan is what MXNet made before the first step: a count of the reads that are still to come
# for each tensor, and memory that is used again when the count is 0
# ([its notes](https://mxnet.apache.org/api/architecture/note_memory)). Python does the same while
# the program runs. A plan made in advance can search longer, since it is made once. Order matters in
# training, too: an optimizer that updates each weight as soon as its gradient is there, in backward,
# never holds all gradients
# ([PyTorch's tutorial](https://docs.pytorch.org/tutorials/intermediate/optimizer_step_in_backward_tutorial.html)).

# %% [markdown]
# ## `tf_input_pipeline`: from files to batches
#
# **To write:** `input_pipeline`, which returns a `tf.data.Dataset`. **Allowed:** anything that an
# answer may import.
#
# A data set is in several TFRecord files. Training wants batches: shuffled, augmented, and ready
# when a step begins. Write that as a pipeline of `tf.data`, from the files to the batches.
#
# `input_pipeline(files, augment, samples, batch_size, seed)` is given
#
# - `files`: the paths of the TFRecord files, a list of str;
# - `augment`: takes **one** image, uint8 (8, 8, 3), and returns its augmented form, float32
#   (8, 8, 3). Each call draws anew. It works in a `map`, where it is slow;
# - `samples`: how many records the files have together;
# - `batch_size`; and `seed`, an int or None.
#
# A record is a `tf.train.Example` with two features: `"image"`, one bytes string of 192 bytes, the
# pixels as uint8 in the order height, width, channel; and `"label"`, one int64.
# `tf.io.parse_single_example(record, features)` takes it apart, where `features` names for each
# feature a `tf.io.FixedLenFeature((), dtype)` with the dtype `tf.string` or `tf.int64`.
# `tf.io.decode_raw(bytes, tf.uint8)` makes pixels of bytes.
#
# An element of the dataset is a batch: a pair of images, float32 (batch, 8, 8, 3), as `augment`
# returned them, and labels, int64 (batch,). Each loop over the dataset is one epoch:
#
# - **The same samples.** It has each sample once. A batch has `batch_size` samples, the last one what
#   is left.
# - **Fresh augmentations.** Each sample goes through `augment` once in every epoch.
# - **Shuffled anew.** In every epoch each order of the samples, not of batches or files, is as likely
#   as any other.
# - **Read once.** From the second epoch on, no file is opened: the samples fit in memory.
# - **Side by side.** Two or more calls of `augment` run at the same time.
# - **Ahead.** While the caller computes on a batch, the next whole batch is made. An epoch's first
#   step does not wait until all of its samples are augmented.
# - **Repeatable.** Two pipelines with one `seed` hand over the samples in the same order, in each of
#   their epochs, however long each augmentation takes. With None the order is another each time.
#
# For example, with `samples=5` and `batch_size=2` the labels of two epochs may be
# `[3 0] [1 4] [2]` and `[1 2] [0 3] [4]`, and no image comes out twice.
#
# The check switches off what `tf.data` adds unasked: a prefetch at the end, and some maps made
# parallel. It counts from outside who opens a file, and serves `augment`'s draws itself. It lets
# augmentations and steps wait for each other: no seconds are compared.
#
# *Before you start: of the stages read, decode, shuffle, augment, batch, which are the same in each
# epoch, and which are new? What follows for the place of `cache`?*


# %%
# %%answer tf_input_pipeline
import tensorflow as tf


def input_pipeline(files, augment, samples, batch_size, seed=None):
    """Batches of the records in `files`, as a tf.data.Dataset; a loop over it is one epoch.

    Elements are images, float32 [batch, 8, 8, 3], and labels, int64 [batch].
    """
    ### BEGIN SOLUTION
    features = {
        "image": tf.io.FixedLenFeature((), tf.string),
        "label": tf.io.FixedLenFeature((), tf.int64),
    }

    def decode(record):
        example = tf.io.parse_single_example(record, features)
        pixels = tf.io.decode_raw(example["image"], tf.uint8)
        return tf.reshape(pixels, (8, 8, 3)), example["label"]

    def augment_pair(image, label):
        return augment(image), label

    parallel = tf.data.AUTOTUNE
    dataset = tf.data.Dataset.from_tensor_slices(files)
    dataset = dataset.interleave(tf.data.TFRecordDataset, num_parallel_calls=parallel)
    dataset = dataset.map(decode, num_parallel_calls=parallel)
    dataset = dataset.cache()
    dataset = dataset.shuffle(samples, seed=seed)
    dataset = dataset.map(augment_pair, num_parallel_calls=parallel)
    dataset = dataset.batch(batch_size)
    return dataset.prefetch(tf.data.AUTOTUNE)
    ### END SOLUTION


# %%
check("tf_input_pipeline")

# %% [markdown]
# **Answer.** Reading and decoding give the same in each epoch; shuffling and augmenting are new, and
# with them what is in a batch. `cache` keeps what reaches it in the first epoch, so it stands between
# the two: after decode, before shuffle. After the augmentation it would hand out the same "random"
# images for ever, and nothing would fail: only the variety is gone.
#
# `shuffle` comes before the slow stage: its buffer has to fill up before the first sample comes out,
# and so holds small images that nobody has worked on yet. `batch` comes after both, `prefetch` last,
# where an element is a whole batch. Parallel calls keep the order of their elements unless
# `deterministic=False`; the order then depends on which call is ready first, and a seed no longer
# repeats it.

# %% [markdown]
# ## Where next
#
# The next lecture is [05 Horovod](../notebooks/05_horovod.ipynb); then come its [exercises](05_horovod.ipynb). `./hpml list` in a terminal shows what is done and what is left.
#
# The [lecture](../notebooks/04_frameworks.ipynb) of these exercises.
