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
