# %%answer mixed_precision
# unusual: bfloat16 until the norm, sums in float64, the scale and its steps with numpy
import numpy as np
import torch
import torch.nn.functional as F
from tqdm import tqdm

LOW = torch.bfloat16


def loss(weights, x, y):
    low = {name: weights[name].to(LOW) for name in ("w1", "w2")}
    h = x.to(LOW).matmul(low["w1"])
    h = F.layer_norm(h.to(torch.float32), (h.size(-1),), weights["gain"], None)
    h = F.linear(F.relu(h.to(LOW)), low["w2"].t())
    scores = h.to(torch.float64) + weights["bias"]
    return F.cross_entropy(scores, y).to(torch.float32)


class Trainer:
    def __init__(self, weights, learning_rate):
        self.weights = weights
        self.rate = learning_rate
        self.bar = tqdm(desc="steps")

    def step(self, x, y):
        leaves = {name: w.detach().requires_grad_(True) for name, w in self.weights.items()}
        value = loss(leaves, x, y)
        value.backward()
        self.weights = {name: w.detach().sub(w.grad, alpha=self.rate) for name, w in leaves.items()}
        self.bar.update()
        return value.item()


class LossScale:
    def __init__(self, scale, growth_interval):
        self.scale, self.interval = np.float64(scale), growth_interval
        self.history = []

    def step(self, weights, gradients, learning_rate, max_norm):
        exact = {name: g.numpy().astype(np.float64) / self.scale for name, g in gradients.items()}
        norm = np.sqrt(sum(np.square(g).sum() for g in exact.values()))
        good = bool(np.isfinite(norm))
        self.history.append(good)
        if not good:
            self.scale, self.history = self.scale / 2, []
            return good
        for name, g in exact.items():
            shorter = g * (max_norm / norm) if norm > max_norm else g
            weights[name] = (weights[name] - torch.from_numpy(learning_rate * shorter)).float()
        if len(self.history) == self.interval:
            self.scale, self.history = self.scale * 2, []
        return good
