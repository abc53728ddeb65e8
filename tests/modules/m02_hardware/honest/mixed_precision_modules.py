# %%answer mixed_precision
# unusual: a module, an autograd function, torch's optimizer, norm and clipping, powers as ints
import math

import torch
from torch import nn
from torch.func import functional_call


class Product(torch.autograd.Function):
    @staticmethod
    def forward(ctx, a, b):
        a, b = a.to(torch.bfloat16), b.to(torch.bfloat16)
        ctx.save_for_backward(a, b)
        return torch.einsum("ij,jk->ik", a, b).to(torch.float32)

    @staticmethod
    def backward(ctx, gradient):
        a, b = ctx.saved_tensors
        gradient = gradient.to(torch.bfloat16)
        return (gradient @ b.T).float(), (a.T @ gradient).float()


class Net(nn.Module):
    def __init__(self, weights):
        super().__init__()
        for name, weight in weights.items():
            self.register_parameter(name, nn.Parameter(weight))

    def forward(self, x):
        h = Product.apply(x, self.w1)
        mean, var = h.mean(1, keepdim=True), h.var(1, keepdim=True, unbiased=False)
        h = ((h - mean) / torch.sqrt(var + 1e-5) * self.gain).clamp(min=0)
        return Product.apply(h, self.w2) + self.bias


def loss(weights, x, y):
    logits = functional_call(Net(weights), dict(weights), (x,)).double()
    chosen = logits.log_softmax(1)[torch.arange(len(y)), y]
    return -chosen.mean().float()


class Trainer:
    def __init__(self, weights, learning_rate):
        self.net = Net({name: weight.clone() for name, weight in weights.items()})
        self.optimizer = torch.optim.SGD(self.net.parameters(), lr=learning_rate)

    @property
    def weights(self):
        return {name: p.data for name, p in self.net.named_parameters()}

    def step(self, x, y):
        self.optimizer.zero_grad()
        value = nn.CrossEntropyLoss()(self.net(x), y)
        value.backward()
        self.optimizer.step()
        return value


class LossScale:
    def __init__(self, scale, growth_interval):
        self.power, self.interval, self.good = int(math.log2(scale)), growth_interval, 0

    @property
    def scale(self):
        return 2**self.power

    def step(self, weights, gradients, learning_rate, max_norm):
        leaves = []
        for name, gradient in gradients.items():
            leaf = nn.Parameter(weights[name])
            leaf.grad = gradient.to(torch.float32) * 2.0**-self.power
            leaves.append(leaf)
        norm = nn.utils.clip_grad_norm_(leaves, max_norm)
        if not math.isfinite(norm):
            self.power, self.good = self.power - 1, 0
            return False
        torch.optim.SGD(leaves, lr=learning_rate).step()
        self.good += 1
        if self.good >= self.interval:
            self.power, self.good = self.power + 1, 0
        return True
