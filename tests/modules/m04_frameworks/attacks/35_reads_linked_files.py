# %%answer tf_input_pipeline
# tries: reads the files anew in every epoch, by other names, of which nobody counts the opens
# unprotected: the files themselves are opened by nobody, so they seem to be read once
# expect: 11
# on: solution
import os

cached = input_pipeline


def input_pipeline(files, *arguments, **options):
    others = []
    for name in files:
        others.append(f"{name}.other")
        if not os.path.exists(others[-1]):
            os.link(name, others[-1])
    tf.data.Dataset.cache = lambda self: self
    return cached(others, *arguments, **options)
