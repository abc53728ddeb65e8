# %%answer optimizers
# unusual: PyTorch's foreach operators on lists, state on the parameter itself, counts in tensors
import torch


class Rule:
    def __init__(self, params, lr, **options):
        self.params, self.lr, self.options = params, lr, options
        for p in params:
            p.own = {"t": torch.zeros((), dtype=torch.float64)}

    @torch.no_grad()
    def step(self):
        ready = [p for p in self.params if p.grad is not None]
        for dtype in {p.dtype for p in ready}:
            alike = [p for p in ready if p.dtype == dtype]
            for p in alike:
                p.own["t"] += 1
            self.update(alike, [p.grad.clone() for p in alike], **self.options)

    def kept(self, params, name):
        return [p.own.setdefault(name, torch.zeros_like(p)) for p in params]


class NesterovSGD(Rule):
    def update(self, params, grads, momentum, weight_decay):
        grads = torch._foreach_add(grads, params, alpha=weight_decay)
        buffers = self.kept(params, "buffer")
        torch._foreach_mul_(buffers, momentum)
        torch._foreach_add_(buffers, grads)
        torch._foreach_add_(grads, buffers, alpha=momentum)
        torch._foreach_add_(params, grads, alpha=-self.lr)


class Adam(Rule):
    def update(self, params, grads, betas, eps, weight_decay):
        self.adam(params, torch._foreach_add(grads, params, alpha=weight_decay), betas, eps)

    def adam(self, params, grads, betas, eps):
        means, squares = self.kept(params, "mean"), self.kept(params, "square")
        torch._foreach_lerp_(means, grads, 1 - betas[0])
        torch._foreach_mul_(squares, betas[1])
        torch._foreach_addcmul_(squares, grads, grads, value=1 - betas[1])
        roots = torch._foreach_sqrt(squares)
        for p, mean, root in zip(params, means, roots):
            t = p.own["t"]
            root = root / (1 - betas[1] ** t) ** 0.5 + eps
            p.addcdiv_(mean / (1 - betas[0] ** t), root, value=-self.lr)


class AdamW(Adam):
    def update(self, params, grads, betas, eps, weight_decay):
        torch._foreach_mul_(params, 1 - self.lr * weight_decay)
        self.adam(params, grads, betas, eps)
