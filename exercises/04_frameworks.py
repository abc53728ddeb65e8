# %% [markdown]
# # 04 Inside the frameworks: exercises
#
# In these exercises you write what a framework does for you: derivatives, an optimizer, memory freed
# in time, gradients on their way while others are still being computed, and an input pipeline.
#
# Each exercise has an answer cell, which starts with `%%answer`, and a check below it. **An answer
# cell stands alone**: it brings its own imports and sees nothing of the other cells. The cells below
# it can use what it defines; where two answers define the same name, the one that was run last
# counts. The check runs the answer on several numbers of ranks, with new inputs each time, and
# reports which claims hold. Check as often as you like; a wrong answer costs nothing. *Before you
# start* is a question to think about first; its answer is below the check.
#
# An answer may import Python's standard library, `numpy`, `torch` and `tqdm`. Nothing else, and
# nothing of `hpml`.

# %%
# %load_ext hpml
from hpml import check


# %% [markdown]
# ## `autodiff`: what it is about
#
# **Core**, about 15 minutes.
#
# What goes in, what comes out, and a question to think about first.

# %%
# %%answer autodiff
def autodiff():
    """What goes in, what comes out."""
    # YOUR CODE HERE
    raise NotImplementedError()


# %%
check("autodiff")


# %% [markdown]
# ## `gradient_hooks`: what it is about
#
# **Core**, about 12 minutes.
#
# What goes in, what comes out, and a question to think about first.

# %%
# %%answer gradient_hooks
def gradient_hooks():
    """What goes in, what comes out."""
    # YOUR CODE HERE
    raise NotImplementedError()


# %%
check("gradient_hooks")


# %% [markdown]
# ## `optimizers`: what it is about
#
# **More**, about 15 minutes: after the core exercises, or at home.
#
# What goes in, what comes out, and a question to think about first.

# %%
# %%answer optimizers
def optimizers():
    """What goes in, what comes out."""
    # YOUR CODE HERE
    raise NotImplementedError()


# %%
check("optimizers")


# %% [markdown]
# ## `static_graph`: what it is about
#
# **More**, about 25 minutes: after the core exercises, or at home.
#
# What goes in, what comes out, and a question to think about first.

# %%
# %%answer static_graph
def static_graph():
    """What goes in, what comes out."""
    # YOUR CODE HERE
    raise NotImplementedError()


# %%
check("static_graph")


# %% [markdown]
# ## `tf_input_pipeline`: what it is about
#
# **More**, about 15 minutes: after the core exercises, or at home.
#
# What goes in, what comes out, and a question to think about first.

# %%
# %%answer tf_input_pipeline
def tf_input_pipeline():
    """What goes in, what comes out."""
    # YOUR CODE HERE
    raise NotImplementedError()


# %%
check("tf_input_pipeline")
