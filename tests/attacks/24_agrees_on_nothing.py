# %%answer global_metrics
# row: 24
# tries: returns the same constants on every rank, without a word to the others
# unprotected: claims that only compare the ranks with each other hold
# expect: 0
def global_metrics(batches):
    return {"loss": 1.5, "accuracy": 0.5, "samples": 12}
