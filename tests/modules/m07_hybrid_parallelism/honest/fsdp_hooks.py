# %%answer fsdp
# unusual: hooks of modules and storages that are resized, as PyTorch's own does it
import torch
import torch.distributed as dist
from torch import nn


class Flat:
    """One weight; `whole` is a leaf of autograd's, and its storage comes and goes."""

    def __init__(self, weight, dtype, wrapper):
        self.wrapper, self.size = wrapper, dist.get_world_size()
        self.count, self.shape = weight.numel(), weight.shape
        self.each = (self.count + self.size - 1) // self.size
        flat = weight.detach().new_zeros(self.each * self.size)
        flat[: self.count] = weight.detach().reshape(-1)
        own = flat.view(self.size, -1)[dist.get_rank()].clone()
        self.shard = nn.Parameter(own, requires_grad=weight.requires_grad)
        self.buffer = torch.empty(self.each * self.size, dtype=dtype)
        self.whole = self.buffer[: self.count].view(self.shape)
        self.whole.requires_grad_(weight.requires_grad)
        if weight.requires_grad:
            self.whole.register_post_accumulate_grad_hook(self.leave)
        self.work = None
        self.free()

    def free(self):
        self.buffer.untyped_storage().resize_(0)

    def fetch(self):
        if self.work is None and not self.buffer.untyped_storage().nbytes():
            self.buffer.untyped_storage().resize_(self.buffer.numel() * self.buffer.itemsize)
            self.own = self.shard.detach().to(self.buffer.dtype)
            self.work = dist.all_gather_into_tensor(self.buffer.data, self.own, async_op=True)

    def await_it(self):
        self.fetch()
        if self.work is not None:
            self.work.wait()
            self.work = None

    def leave(self, whole):
        self.wrapper.arrive()
        parts = whole.grad.new_zeros(self.each * self.size)
        parts[: self.count] = whole.grad.reshape(-1)
        whole.grad = None
        got = torch.empty_like(parts)
        self.wrapper.flying = self, got, parts, dist.all_to_all_single(got, parts, async_op=True)


class FullyShard(nn.Module):
    def __init__(self, module, compute_dtype=None):
        super().__init__()
        self.module, self.dtype, self.flying = module, compute_dtype, None
        self.flats, self.order, self.now = {}, [], []
        for layer in module.modules():
            if isinstance(layer, (nn.Linear, nn.Embedding)) and layer.weight.numel() > 1023:
                weight = layer.weight
                if weight not in self.flats:
                    self.flats[weight] = Flat(weight, compute_dtype or weight.dtype, self)
                self.attach(layer, self.flats[weight])
        self.by_shard = {flat.shard: flat for flat in self.flats.values()}
        self.flats = None

    def attach(self, layer, flat):
        layer.weight = flat.shard
        master = flat.shard.dtype

        def before(_, args):
            flat.await_it()
            place = len(self.now)
            self.now.append(flat)
            if place + 1 < len(self.order) and self.order[place + 1] is not flat:
                self.order[place + 1].fetch()
            layer.__dict__["weight"] = flat.whole
            if self.dtype is None:
                return None
            if getattr(layer, "bias", None) is not None:
                layer.__dict__["bias"] = layer._parameters["bias"].to(self.dtype)
            return tuple(a.to(self.dtype) if a.is_floating_point() else a for a in args)

        def after(_, args, output):
            layer.__dict__.pop("weight")
            layer.__dict__.pop("bias", None)
            flat.free()
            return output if output.dtype == master else output.to(master)

        def before_backward(*_):
            flat.await_it()
            place = max(n for n, other in enumerate(self.now) if other is flat)
            del self.now[place:]
            if self.now:
                self.now[-1].fetch()

        layer.register_forward_pre_hook(before)
        layer.register_forward_hook(after)
        layer.register_full_backward_pre_hook(before_backward)
        layer.register_full_backward_hook(lambda *_: flat.free())

    def arrive(self):
        if self.flying is None:
            return
        flat, got, _, work = self.flying
        self.flying = None
        work.wait()
        mean = got.view(flat.size, -1).to(flat.shard.dtype).mean(0)
        flat.shard.grad = mean if flat.shard.grad is None else flat.shard.grad.add_(mean)

    def forward(self, *args, **kwargs):
        self.now = []
        output = self.module(*args, **kwargs)
        self.order = list(self.now)
        return output

    def synchronize(self):
        self.arrive()
        for flat in self.by_shard.values():
            if flat.work is not None:
                flat.await_it()
            flat.free()
        for p in self.parameters():
            if p not in self.by_shard and p.grad is not None:
                dist.all_reduce(p.grad)
                p.grad.div_(dist.get_world_size())

    def gather(self, name):
        p = dict(self.module.named_parameters(remove_duplicate=False))[name]
        flat = self.by_shard.get(p)
        if flat is None:
            return p.data.clone()
        parts = [torch.empty_like(p.data) for _ in range(flat.size)]
        dist.all_gather(parts, p.data)
        return torch.cat(parts)[: flat.count].reshape(flat.shape)
