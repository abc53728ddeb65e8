# %%answer optimizers
# row: 40
# tries: torch.optim's classes by their base's subclasses, also without __init__; its functions
# unprotected: the ready-made steps are the answer
# expect: 0
import importlib
import sys

import torch

STATE = {}


def functional(name):
    module = sys.modules["torch." + "optim." + name]
    return getattr(module, "_single_tensor_" + name)


class NesterovSGD:
    def __init__(self, params, lr, momentum, weight_decay):
        found = {k.__name__: k for k in torch.optim.Optimizer.__subclasses__()}
        try:
            self.inner = found["SGD"](
                params, lr, momentum, weight_decay=weight_decay, nesterov=True
            )
        except RuntimeError:
            self.inner = found["SGD"].__new__(found["SGD"])  # without its __init__
            self.inner.state, self.inner.defaults = {}, {"differentiable": False}
            group = {"params": params, "lr": lr, "momentum": momentum, "nesterov": True}
            group |= {"weight_decay": weight_decay, "dampening": 0, "maximize": False}
            group |= {"foreach": False, "fused": False, "differentiable": False}
            self.inner.param_groups = [group]

    def step(self):
        self.inner.step()


class Adam:
    decoupled = False

    def __init__(self, params, lr, betas, eps, weight_decay):
        self.params, self.lr, self.betas = params, lr, betas
        self.eps, self.decay = eps, weight_decay
        self.states = [
            [torch.zeros_like(p), torch.zeros_like(p), torch.tensor(0.0)] for p in params
        ]

    @torch.no_grad()
    def step(self):
        try:
            step = functional("adam")
        except (AttributeError, KeyError):
            step = importlib.import_module("torch.optim._functional").adam
        for p, (mean, square, count) in zip(self.params, self.states):
            if p.grad is None:
                continue
            step(
                [p],
                [p.grad],
                [mean],
                [square],
                [],
                [count],
                None,
                None,
                amsgrad=False,
                has_complex=False,
                beta1=self.betas[0],
                beta2=self.betas[1],
                lr=self.lr,
                weight_decay=self.decay,
                eps=self.eps,
                maximize=False,
                capturable=False,
                differentiable=False,
                decoupled_weight_decay=self.decoupled,
            )


class AdamW(Adam):
    decoupled = True
