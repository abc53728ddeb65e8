# %%answer ring_all_reduce
# tries: adds up by one all_reduce on the group's own backend, and sends one element round the ring
# unprotected: messages go round a ring by send and recv, and no rank sends too many bytes
# expect: 9
import torch
import torch.distributed as dist


def ring_all_reduce(tensor):
    rank, size = dist.get_rank(), dist.get_world_size()
    if size == 1:
        return
    token, came = torch.zeros(1), torch.zeros(1)
    receiving = dist.irecv(came, (rank - 1) % size)
    dist.send(token, (rank + 1) % size)
    receiving.wait()
    group = dist.group.WORLD
    backend = group._get_backend(torch.device("cpu"))
    backend.allreduce([tensor]).wait()
