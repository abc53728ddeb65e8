# %%answer global_metrics
# tries: returns a dict whose keys and values are texts of 120 kB
# unprotected: a sentence of the record has what was returned in place of a number
def global_metrics(batches):
    return {"loss": "x" * 120_000, "y" * 3_000_000: 1, "samples": ["z" * 3_000_000]}
