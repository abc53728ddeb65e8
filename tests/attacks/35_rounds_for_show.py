# %%answer mixed_precision
# row: 35
# tries: computes in float32, rounds its gradients to bfloat16, and hides its products from records
# unprotected: gradients have bfloat16's rounding, and what went before them does not
# expect: 2
import torch
from torch.nn import functional


class Product(torch.autograd.Function):
    @staticmethod
    def forward(ctx, a, b):
        ctx.save_for_backward(a, b)
        return torch.from_numpy(a.detach().numpy() @ b.detach().numpy())

    @staticmethod
    def backward(ctx, gradient):
        a, b = (each.detach().numpy() for each in ctx.saved_tensors)
        g = gradient.numpy()
        return torch.from_numpy(g @ b.T), torch.from_numpy(a.T @ g).bfloat16().float()


def loss(weights, x, y):
    h = Product.apply(x, weights["w1"])
    h = functional.layer_norm(h, h.shape[1:], weight=weights["gain"]).relu()
    return functional.cross_entropy(Product.apply(h, weights["w2"]) + weights["bias"], y)


class Trainer:
    def __init__(self, weights, learning_rate):
        self.weights = {name: weight.requires_grad_() for name, weight in weights.items()}
        self.learning_rate = learning_rate

    def step(self, x, y):
        value = loss(self.weights, x, y)
        gradients = torch.autograd.grad(value, list(self.weights.values()))
        with torch.no_grad():
            for weight, gradient in zip(self.weights.values(), gradients):
                weight -= self.learning_rate * gradient
        return value.detach()


class LossScale:
    def __init__(self, scale, growth_interval):
        self.scale = scale

    def step(self, weights, gradients, learning_rate, max_norm):
        return True
