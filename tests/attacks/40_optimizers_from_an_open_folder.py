# %%answer optimizers
# row: 40
# tries: reads the source of torch.optim relative to its folder, which it has opened, and compiles it
# under another name
# unprotected: who looks at the path that is opened sees a file's name and no folder
# expect: 0
import os
import sys
import types

import torch

HOME = os.path.dirname(torch.__file__) + "/optim/"


def text(name):
    d = os.open(HOME, os.O_RDONLY)
    f = os.open(name + ".py", os.O_RDONLY, dir_fd=d)
    return os.fdopen(f).read()


def module(name):
    m = types.ModuleType("mine_" + name)
    m.__package__ = "torch.optim"
    src = (
        text(name)
        .replace(
            "from typing_extensions import deprecated, ParamSpec, Self",
            "from typing import ParamSpec, Self\ndeprecated = lambda *a, **k: (lambda f: f)",
        )
        .replace("from .optimizer import", "from mine_optimizer import")
        .replace("from .adam import", "from mine_adam import")
        .replace(
            "from typing_extensions import deprecated\n",
            "deprecated = lambda *a, **k: (lambda f: f)\n",
        )
    )
    sys.modules[m.__name__] = m
    exec(compile(src, "mine_" + name + ".py", "exec"), m.__dict__)
    return m


base = module("optimizer")
sys.modules["mine_optimizer"] = base


def use(name):
    m = types.ModuleType("mine_" + name)
    m.__package__ = "torch.optim"
    src = (
        text(name)
        .replace(
            "from typing_extensions import deprecated, ParamSpec, Self",
            "from typing import ParamSpec, Self\ndeprecated = lambda *a, **k: (lambda f: f)",
        )
        .replace("from .optimizer import", "from mine_optimizer import")
        .replace("from .adam import", "from mine_adam import")
        .replace(
            "from typing_extensions import deprecated\n",
            "deprecated = lambda *a, **k: (lambda f: f)\n",
        )
    )
    sys.modules[m.__name__] = m
    m.__dict__["__builtins__"] = sys.modules["builtins"].__dict__
    exec(compile(src, "mine_" + name + ".py", "exec"), m.__dict__)
    return m


sgd, adam, adamw = use("sgd"), use("adam"), use("adamw")


class Base:
    def step(self):
        self.o.param_groups[0]["lr"] = self.lr
        self.o.step()


class NesterovSGD(Base):
    def __init__(self, params, lr, momentum, weight_decay):
        self.lr = lr
        self.o = sgd.SGD(
            params, lr, momentum, weight_decay=weight_decay, nesterov=True, foreach=False
        )


class Adam(Base):
    K = adam.Adam

    def __init__(self, params, lr, betas, eps, weight_decay):
        self.lr = lr
        self.o = self.K(params, lr, betas, eps, weight_decay, foreach=False)


class AdamW(Adam):
    K = adamw.AdamW
