# %%answer optimizers
# unusual: numpy views of the parameters' memory, state in a dict by id, made when it is needed
import math

import numpy as np


class NesterovSGD:
    def __init__(self, params, lr, momentum, weight_decay):
        self.parameters = tuple(params)
        self.lr, self.mu, self.decay = lr, momentum, weight_decay
        self.state = {}

    def step(self):
        for p in self.parameters:
            if p.grad is not None:
                w, g = p.detach().numpy(), p.grad.numpy()
                self.update(id(p), w, g)

    def update(self, key, w, g):
        d = g + np.asarray(self.decay, dtype=w.dtype) * w
        self.state[key] = b = d if key not in self.state else self.mu * self.state[key] + d
        w[...] = w - self.lr * (d + self.mu * b)


class Adam(NesterovSGD):
    beside = False

    def __init__(self, params, lr, betas, eps, weight_decay):
        super().__init__(params, lr, None, weight_decay)
        self.betas, self.eps = betas, eps

    def update(self, key, w, g):
        first, second = self.betas
        t, m, v = self.state.get(key, (0, 0.0, 0.0))
        t += 1
        d = g if self.beside else g + self.decay * w
        m, v = first * m + (1 - first) * d, second * v + (1 - second) * np.square(d)
        self.state[key] = t, m, v
        correction = math.sqrt(1 - second**t) / (1 - first**t)
        eps = self.eps * math.sqrt(1 - second**t)
        step = self.lr * correction * m / (np.sqrt(v) + eps)
        w -= step + (self.lr * self.decay * w if self.beside else 0.0)


class AdamW(Adam):
    beside = True
