# %%answer checkpoint
# tries: save and load do nothing, and the sampler has nothing to give
# unprotected: claims on what was taken, and what was left, hold for nothing
# on: keeps_weights_alone
save = load = lambda *_: None
