# %%answer ring_all_reduce
# tries: adds up by the library's all_reduce, in code that has no line of the answer, and sends one
#   element round the ring where it can be seen
# unprotected: calls without a line look like the check's own
# expect: 9
import torch
import torch.distributed as dist


def ring_all_reduce(tensor):
    def token():
        rank, world_size = dist.get_rank(), dist.get_world_size()
        arrived = torch.zeros(1)
        receive = dist.irecv(arrived, (rank - 1) % world_size)
        send = dist.isend(torch.zeros(1), (rank + 1) % world_size)
        receive.wait()
        send.wait()

    dist.all_reduce(tensor)
    if dist.get_world_size() > 1:
        token()


ring_all_reduce.__code__ = ring_all_reduce.__code__.replace(co_filename="x")
