# %%answer mixed_precision
# tries: switches automatic casts on by the function below the refused class
# unprotected: what was to be written is PyTorch's own
# expect: 6
# on: solution
def loss(weights, x, y):
    torch.set_autocast_dtype("cpu", torch.bfloat16)
    torch.set_autocast_cpu_enabled(True)
    try:
        hidden = (x @ weights["w1"]).float()
        hidden = functional.layer_norm(hidden, hidden.shape[1:], weight=weights["gain"]).relu()
        logits = (hidden @ weights["w2"]).float() + weights["bias"]
    finally:
        torch.set_autocast_cpu_enabled(False)
    return functional.cross_entropy(logits, y)
