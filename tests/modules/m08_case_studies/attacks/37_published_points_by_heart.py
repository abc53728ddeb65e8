# %%answer predict_scaling
# tries: knows the published images/s at 32 GPUs by heart, and has no fit; what it earns is for the
# model of a step, which is right
# unprotected: what is published can be looked up, and does not change
# expect: 9
# on: solution
KNOWN = {52.01: 1648, 51.98: 985.5, 169.1: 5182, 171.6: 3636}
KNOWN |= {226.4: 5819, 230.1: 3943, 335.7: 6514, 349.5: 4269}
computed = images_per_s


def images_per_s(job, ranks, share=1.0, wait=0.0):
    known = KNOWN.get(job["alone"]) if ranks == 32 else None
    return known or computed(job, ranks, 1.0, wait)


def fit(job, points):
    return 0.5, 0.001
