# %%answer sync_sgd
# unusual: float64 is the default dtype, the mathematics are numpy's, the weights travel as an object
import numpy as np
import torch
import torch.distributed as dist

torch.set_default_dtype(torch.float64)
np.seterr(all="raise")


def start(weights):
    box = [weights.tolist()]
    dist.broadcast_object_list(box, src=0)
    return torch.tensor(box[0])


def step(weights, x, y, learning_rate):
    w, a, b = (tensor.numpy() for tensor in (weights, x, y))
    gradient = a.T @ (a @ w - b)
    buffer = np.append(gradient, len(b))
    dist.all_reduce(torch.from_numpy(buffer))  # the same memory
    return torch.from_numpy(w - learning_rate * buffer[:-1] / buffer[-1])
