# %%answer optimizers
# unusual: a generator for each parameter, which holds its state in local variables and yields steps
import torch


def nesterov(rule):
    p = yield
    buffer = 0.0
    while True:
        gradient = p.grad + rule.weight_decay * p.data
        buffer = gradient.clone() + rule.momentum * buffer
        p = yield p.data - rule.lr * (gradient + rule.momentum * buffer)


def moments(rule):
    p = yield
    mean = square = torch.zeros((), dtype=p.dtype)
    power = [1.0, 1.0]
    while True:
        start = p.data
        gradient = p.grad
        if rule.beside:
            start = start - rule.lr * rule.weight_decay * start
        else:
            gradient = gradient + rule.weight_decay * start
        power = [a * b for a, b in zip(power, rule.betas)]
        mean = torch.lerp(gradient, mean.expand_as(gradient), rule.betas[0])
        square = rule.betas[1] * square + gradient.square() - rule.betas[1] * gradient.square()
        root = torch.sqrt(square.div(1 - power[1])).add(rule.eps)
        p = yield start - rule.lr * mean.div(1 - power[0]).div(root)


class Rule:
    rules = staticmethod(moments)

    def __init__(self, params, **options):
        vars(self).update(options)
        self.running = [(p, self.rules(self)) for p in params]
        for _, one in self.running:
            next(one)

    def step(self):
        for p, one in self.running:
            if p.grad is not None:
                p.data.copy_(one.send(p))


class NesterovSGD(Rule):
    rules = staticmethod(nesterov)


class Adam(Rule):
    beside = False


class AdamW(Rule):
    beside = True
