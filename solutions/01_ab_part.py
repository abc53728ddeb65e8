# %% [markdown]
# ## `alpha_beta`: what does it cost, before it is run?
#
# The model that every comparison of all-reduces is made with has two numbers. A message of *n* bytes
# takes α + *n* β seconds: α is the *latency*, whatever its length, and β the seconds per byte, the
# inverse of the bandwidth (Hockney 1994, *The communication challenge for MPP*). A rank can send one
# message and receive another at the same time, and no more: messages that one rank has to send, or
# to receive, come one after the other. Messages between different ranks travel at the same time.
# Adding up is not counted.
#
# An algorithm costs what its busiest rank has to do, step by step, for tensors of *n* bytes on each
# of *p* ranks:
#
# - **naive**: all others send all they have to rank 0, which sends the sum to each of them;
# - **tree**: up a binomial tree to rank 0, then down again. In each level the ranks that are left
#   work in pairs, one sends all it has to the other, and half of them, rounded up, are left;
# - **ring**: reduce-scatter, then all-gather, as in `ring_all_reduce`;
# - **halving-doubling**, for *p* a power of two: exchange half of the tensor with one rank, half of
#   that half with another, and so on until each rank has a *p*-th of the sum; then all steps
#   backwards (Thakur, Rabenseifner and Gropp 2005, *Optimization of collective communication
#   operations in MPICH*, section 4.5).
#
# With one rank there is nothing to send, and it takes no time.
#
# Held to: the exact cost, and a real link: the four algorithms are timed on 4 ranks over 100 Mbit/s.
# With the α and β that fit these times best, yours must be the times, within 15 % in the median.
#
# *Before you start: which of the four is best for 100 bytes on 64 ranks, and which for 100 MB?*

# %%
# %%answer alpha_beta
def naive_seconds(nbytes: int, ranks: int, alpha: float, beta: float) -> float:
    """Seconds of an all-reduce of `nbytes` through rank 0.

    `alpha` in seconds per message, `beta` in seconds per byte; so in all four.
    """
    ### BEGIN SOLUTION
    return 2 * (ranks - 1) * (alpha + nbytes * beta)
    ### END SOLUTION


def tree_seconds(nbytes: int, ranks: int, alpha: float, beta: float) -> float:
    """Seconds up a binomial tree and down again; `ranks` need not be a power of two."""
    ### BEGIN SOLUTION
    levels = (ranks - 1).bit_length()  # log₂, rounded up
    return 2 * levels * (alpha + nbytes * beta)
    ### END SOLUTION


def ring_seconds(nbytes: int, ranks: int, alpha: float, beta: float) -> float:
    """Seconds around a ring, `nbytes` cut into as many equal parts as there are ranks."""
    ### BEGIN SOLUTION
    return 2 * (ranks - 1) * (alpha + nbytes / ranks * beta)
    ### END SOLUTION


def halving_doubling_seconds(nbytes: int, ranks: int, alpha: float, beta: float) -> float:
    """Seconds of recursive halving and doubling; `ranks` is a power of two."""
    ### BEGIN SOLUTION
    steps = (ranks - 1).bit_length()  # in each direction; their messages add up to (p-1)/p
    return 2 * (steps * alpha + (ranks - 1) / ranks * nbytes * beta)
    ### END SOLUTION


# %%
check("alpha_beta")

# %% [markdown]
# On 64 ranks, with α of 20 µs and 10 Gbit/s:

# %%
print(f"{'bytes':>12}   naive      tree       ring       halving-doubling (ms)")
for nbytes in (100, 10_000, 1_000_000, 100_000_000):
    ways = (naive_seconds, tree_seconds, ring_seconds, halving_doubling_seconds)
    print(f"{nbytes:12}", *(f"{1e3 * way(nbytes, 64, 20e-6, 0.8e-9):10.3f}" for way in ways))

# %% [markdown]
# For few bytes the number of messages counts, and the tree has few; for many the bytes, and ring and
# halving-doubling send the least. Halving-doubling is good at both, but most of its bytes go to far
# ranks, over whatever lies between; in a ring each rank talks to its neighbours only. That is why a
# library has several, and picks one by size.
