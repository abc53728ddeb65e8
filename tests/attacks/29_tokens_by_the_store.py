# %%answer moe_all_to_all
# row: 29, 32
# tries: tokens and outputs go through the group's store; no rank sends anything to another
# unprotected: outputs are right and no byte is seen between ranks
# expect: 0
import io

import torch
import torch.distributed as dist

turn = 0


def traded(value):
    global turn
    turn += 1
    store = dist.distributed_c10d._get_default_store()
    text = io.BytesIO()
    torch.save(value, text)
    store.set(f"{turn}-{dist.get_rank()}", text.getvalue())
    return [torch.load(io.BytesIO(store.get(f"{turn}-{r}"))) for r in range(dist.get_world_size())]


def moe(x, choice, gate, experts, capacity):
    every = traded((x.detach(), choice))
    choices = torch.cat([c for _, c in every])
    rows = torch.cat([tokens for tokens, _ in every])
    first = dist.get_rank() * len(experts)
    found = {}
    for n, expert in enumerate(experts):
        at = torch.nonzero(choices == first + n)[:capacity, 0]
        found[first + n] = at, expert(rows[at]).detach()
    y = torch.zeros_like(rows)
    for part in traded(found):
        for at, outputs in part.values():
            y[at] = outputs
    start = sum(len(c) for _, c in every[: dist.get_rank()])
    return y[start : start + len(x)] * gate[:, None]
