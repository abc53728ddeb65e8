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

# %% [markdown]
# ## 5. Where the time goes below Python

# %% [markdown]
# ## 6. Where communication gets in

# %% [markdown]
# ## 7. One bit for each gradient *(more)*

# %% [markdown]
# ## 8. The frameworks on one map

# %% [markdown]
# ## 9. `tf.data` done right *(more)*

# %% [markdown]
# ## 10. From one framework to another: ONNX *(more)*

# %% [markdown]
# ## 11. On the cluster *(more)*

# %% [markdown]
# ## What to take home
