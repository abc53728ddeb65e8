# %%answer fsdp
# unusual: the derivatives by hand, lists of parts, the order of use read off the module
import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn


class LinearFunction(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, shard, bias, owner, layer):
        weight = owner.fetch(layer, +1)
        ctx.save_for_backward(x)
        ctx.owner, ctx.layer, ctx.has_bias = owner, layer, bias is not None
        if bias is not None:
            bias = bias.to(weight.dtype)
        return F.linear(x, weight, bias)

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        gx = gb = None
        if ctx.needs_input_grad[0]:
            gx = g @ ctx.owner.fetch(ctx.layer, -1)
        rows, given = g.flatten(0, -2), x.flatten(0, -2)
        if ctx.needs_input_grad[1]:
            ctx.owner.reduce(ctx.layer, rows.t() @ given)
        if ctx.has_bias and ctx.needs_input_grad[2]:
            gb = rows.sum(0).to(ctx.layer.bias.dtype)
        return gx, None, gb, None, None


class EmbeddingFunction(torch.autograd.Function):
    @staticmethod
    def forward(ctx, shard, tokens, owner, layer):
        ctx.owner, ctx.layer, ctx.tokens = owner, layer, tokens
        return F.embedding(tokens, owner.fetch(layer, +1))

    @staticmethod
    def backward(ctx, g):
        if ctx.needs_input_grad[0]:
            shape = ctx.owner.shapes[ctx.layer.weight]
            whole = g.new_zeros(shape)
            whole.index_add_(0, ctx.tokens.flatten(), g.flatten(0, -2))
            ctx.owner.reduce(ctx.layer, whole)
        return None, None, None, None


class FullyShard(nn.Module):
    def __init__(self, module, compute_dtype=None):
        super().__init__()
        self.module, self.compute_dtype = module, compute_dtype
        self.size = dist.get_world_size()
        self.shapes, shards = {}, {}
        self.layers = []  # in the order in which the module lists them, which is that of use
        for layer in module.modules():
            if not isinstance(layer, (nn.Linear, nn.Embedding)) or layer.weight.numel() < 1024:
                continue
            old = layer.weight
            if old not in shards:
                parts = self.parts(old.detach())
                mine = parts[dist.get_rank()].clone()
                shards[old] = nn.Parameter(mine, requires_grad=old.requires_grad)
                self.shapes[shards[old]] = old.shape
            layer.weight = shards[old]
            self.layers.append(layer)
            layer.forward = self.forward_of(layer)
        self.coming = {}
        self.reducing = []

    def parts(self, tensor):
        flat = tensor.reshape(-1)
        each = -(-flat.numel() // self.size)
        return list(F.pad(flat, (0, each * self.size - flat.numel())).split(each))

    def forward_of(self, layer):
        def linear(x):
            x = x if self.compute_dtype is None else x.to(self.compute_dtype)
            y = LinearFunction.apply(x, layer.weight, layer.bias, self, layer)
            return y.to(layer.weight.dtype)

        def embedding(tokens):
            return EmbeddingFunction.apply(layer.weight, tokens, self, layer).to(layer.weight.dtype)

        return linear if isinstance(layer, nn.Linear) else embedding

    def begin(self, layer):
        if layer in self.coming:
            return
        mine = layer.weight.detach().to(self.compute_dtype or layer.weight.dtype)
        parts = [torch.empty_like(mine) for _ in range(self.size)]
        self.coming[layer] = parts, dist.all_gather(parts, mine, async_op=True)

    def fetch(self, layer, direction):
        self.begin(layer)
        parts, work = self.coming.pop(layer)
        work.wait()
        place = self.layers.index(layer) + direction
        least = 1 if direction < 0 and isinstance(self.layers[0], nn.Embedding) else 0
        if least <= place < len(self.layers):
            self.begin(self.layers[place])
        shape = self.shapes[layer.weight]
        return torch.cat(parts)[: shape.numel()].view(shape)

    def reduce(self, layer, gradient):
        self.settle()
        sent = self.parts(gradient)
        got = [torch.empty_like(part) for part in sent]
        if dist.get_backend() == "gloo":
            flat = torch.cat(got), torch.cat(sent)
            work = dist.all_to_all_single(*flat, async_op=True)
            got = flat[0].view(self.size, -1)
        else:
            work = dist.all_to_all(got, sent, async_op=True)
        self.reducing.append((layer.weight, got, flat[1], work))

    def settle(self):
        while self.reducing:
            shard, got, _, work = self.reducing.pop()
            work.wait()
            total = sum(part.to(shard.dtype) for part in got) / self.size
            shard.grad = total if shard.grad is None else shard.grad + total

    def forward(self, *args, **kwargs):
        return self.module(*args, **kwargs)

    def synchronize(self):
        self.settle()
        for _, work in self.coming.values():
            work.wait()
        self.coming.clear()
        for p in self.parameters():
            if p not in self.shapes and p.grad is not None:
                p.grad /= self.size
                dist.all_reduce(p.grad)

    def gather(self, name):
        p = self.module.get_parameter(name)
        if p not in self.shapes:
            return p.detach().clone()
        parts = [torch.empty_like(p.detach()) for _ in range(self.size)]
        dist.all_gather(parts, p.detach())
        return torch.cat(parts)[: self.shapes[p].numel()].view(self.shapes[p])
