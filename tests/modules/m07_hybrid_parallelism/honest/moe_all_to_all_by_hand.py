# %%answer moe_all_to_all
# unusual: isend and irecv instead of an all-to-all, numpy for the bookkeeping, the whole layer as
# one autograd.Function that runs the experts' backward itself
import numpy as np
import torch
import torch.distributed as dist


def swap(pieces, lengths, like):
    me = dist.get_rank()
    found = [like.new_empty((int(m), like.shape[1])) for m in lengths]
    works = []
    for other in range(dist.get_world_size()):
        if other == me:
            found[me] = pieces[me]
            continue
        if len(pieces[other]):
            works.append(dist.isend(pieces[other].contiguous(), other))
        if len(found[other]):
            works.append(dist.irecv(found[other], other))
    for work in works:
        work.wait()
    return found


class Layer(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, gate, choice, experts, capacity, *parameters):
        size, me, n = dist.get_world_size(), dist.get_rank(), len(experts)
        mine = torch.from_numpy(np.bincount(choice.numpy(), minlength=size * n))
        tables = [torch.empty_like(mine) for _ in range(size)]
        dist.all_gather(tables, mine)
        table = np.stack([t.numpy() for t in tables])
        before = np.cumsum(table, 0) - table
        kept = np.clip(capacity - before, 0, table)
        index = [np.flatnonzero(choice.numpy() == e)[: kept[me, e]] for e in range(size * n)]
        ctx.index = [
            torch.from_numpy(np.concatenate(index[r * n : (r + 1) * n])) for r in range(size)
        ]
        ctx.lengths = kept[:, me * n : (me + 1) * n].sum(1)
        arrived = swap([x[i] for i in ctx.index], ctx.lengths, x)
        with torch.enable_grad():
            ctx.rows = torch.cat(arrived).requires_grad_()
            owner = np.concatenate(
                [np.repeat(np.arange(n), kept[r, me * n : (me + 1) * n]) for r in range(size)]
            )
            out = torch.zeros_like(ctx.rows)
            for k, expert in enumerate(experts):
                at = torch.from_numpy(np.flatnonzero(owner == k))
                if len(at):
                    out = out.index_copy(0, at, expert(ctx.rows[at]))
        ctx.out, ctx.parameters = out, parameters
        back = swap(out.detach().split(ctx.lengths.tolist()), map(len, ctx.index), x)
        ctx.y = torch.zeros_like(x)
        for i, piece in zip(ctx.index, back):
            ctx.y[i] = piece
        ctx.gate = gate.detach().clone()
        return ctx.y * ctx.gate[:, None]

    @staticmethod
    def backward(ctx, g):
        down = g * ctx.gate[:, None]
        arrived = torch.cat(swap([down[i] for i in ctx.index], ctx.lengths, g))
        with torch.enable_grad():
            total = (ctx.out * arrived).sum() + 0 * ctx.rows.sum()
        rows, *weights = torch.autograd.grad(total, [ctx.rows, *ctx.parameters], allow_unused=True)
        back = swap(rows.split(ctx.lengths.tolist()), map(len, ctx.index), g)
        x = torch.zeros_like(g)
        for i, piece in zip(ctx.index, back):
            x[i] = piece
        return x, (g * ctx.y).sum(1), None, None, None, *weights


def moe(x, choice, gate, experts, capacity):
    parameters = [p for expert in experts for p in expert.parameters()]
    return Layer.apply(x, gate, choice, experts, capacity, *parameters)
