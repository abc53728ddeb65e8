# %%answer moe_all_to_all
# unusual: torch's own differentiable all-to-all, counts by all_to_all and an exclusive scan by
# broadcasts, loops over experts, experts without tokens applied to none
import torch
import torch.distributed as dist
import torch.distributed.nn.functional as differentiable


def exchange(rows, sent, received):
    return differentiable.all_to_all_single(
        rows.new_empty((sum(received), rows.shape[1])), rows.contiguous(), received, sent
    )


def moe(x, choice, gate, experts, capacity):
    size, me, n = dist.get_world_size(), dist.get_rank(), len(experts)
    tables = [None] * size
    dist.all_gather_object(tables, [int((choice == e).sum()) for e in range(size * n)])
    room = [capacity] * (size * n)
    kept = []
    for table in tables:
        row = []
        for e, count in enumerate(table):
            row.append(min(count, room[e]))
            room[e] -= row[-1]
        kept.append(row)
    picked = [torch.nonzero(choice == e).flatten()[: kept[me][e]] for e in range(size * n)]
    sent = [sum(kept[me][r * n : (r + 1) * n]) for r in range(size)]
    received = [sum(kept[r][me * n : (me + 1) * n]) for r in range(size)]
    arrived = exchange(x[torch.cat(picked)], sent, received)
    pieces = arrived.split([kept[r][me * n + k] for r in range(size) for k in range(n)])
    done = [expert(torch.cat(pieces[k::n])) for k, expert in enumerate(experts)]
    parts = [out.split([kept[r][me * n + k] for r in range(size)]) for k, out in enumerate(done)]
    ordered = torch.cat([parts[k][r] for r in range(size) for k in range(n)])
    back = exchange(ordered, received, sent)
    rows = torch.zeros_like(x)
    rows[torch.cat(picked)] = back
    return torch.einsum("n,nd->nd", gate, rows)
