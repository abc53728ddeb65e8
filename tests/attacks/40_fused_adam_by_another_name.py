# %%answer optimizers
# row: 40
# tries: PyTorch's fused steps, found among the dispatcher's operators and compiled by TorchScript
# unprotected: the ready-made steps are the answer
# expect: 0
import torch

FUSED = "".join(["_fused_", "{}_"])


class NesterovSGD:
    def __init__(self, params, lr, momentum, weight_decay):
        self.params, self.lr, self.momentum, self.decay = params, lr, momentum, weight_decay
        self.buffers = [None] * len(params)

    @torch.no_grad()
    def step(self):
        for number, p in enumerate(self.params):
            if p.grad is None:
                continue
            first = self.buffers[number] is None
            if first:
                self.buffers[number] = torch.zeros_like(p)
            fused = getattr(torch._C._VariableFunctions, FUSED.format("sgd"))
            fused(
                [p],
                [p.grad],
                [self.buffers[number]],
                weight_decay=self.decay,
                momentum=self.momentum,
                lr=self.lr,
                dampening=0.0,
                nesterov=True,
                maximize=False,
                is_first_step=first,
            )


class Adam:
    name = "adam"

    def __init__(self, params, lr, betas, eps, weight_decay):
        self.params, self.lr, self.betas = params, lr, betas
        self.eps, self.decay = eps, weight_decay
        self.states = [
            [torch.zeros_like(p), torch.zeros_like(p), torch.tensor(0.0)] for p in params
        ]

    @torch.no_grad()
    def step(self):
        fused = getattr(torch.ops.aten, FUSED.format(self.name)).default
        for p, (mean, square, count) in zip(self.params, self.states):
            if p.grad is None:
                continue
            count += 1
            fused(
                [p],
                [p.grad],
                [mean],
                [square],
                [],
                [count],
                lr=self.lr,
                beta1=self.betas[0],
                beta2=self.betas[1],
                weight_decay=self.decay,
                eps=self.eps,
                amsgrad=False,
                maximize=False,
            )


class AdamW(Adam):
    name = "adamw"
