# %%answer ddp_train
# row: 29
# tries: each rank takes its share of samples and hands them to the others through sockets of its
# own; then all train serially on everything, and no gradient travels
# unprotected: samples are those that each rank was served, and weights are the serial script's
# expect: 7
import io
import os
import socket
import time

import torch
import torch.distributed as dist
from torch.nn import functional

PORT = 20_000


def connected(address, port):
    for _ in range(200):
        try:
            return socket.create_connection((address, port))
        except OSError:
            time.sleep(0.02)
    raise RuntimeError("nobody is there")


def exchange(rank, world_size, mine):
    """All ranks' bytes, through rank 0."""
    address = os.environ["MASTER_ADDR"]
    if rank == 0:
        listener = socket.create_server(("", PORT + os.getpid() % 1000))
        dist.broadcast(torch.tensor(PORT + os.getpid() % 1000), 0)
        peers, parts = {}, {0: mine}
        for _ in range(world_size - 1):
            peer = listener.accept()[0].makefile("rwb")
            other, length = (int(number) for number in peer.readline().split())
            peers[other], parts[other] = peer, peer.read(length)
        for peer in peers.values():
            for other in range(world_size):
                peer.write(b"%d\n" % len(parts[other]) + parts[other])
            peer.flush()
        return [parts[other] for other in range(world_size)]
    port = torch.tensor(0)
    dist.broadcast(port, 0)
    file = connected(address, int(port)).makefile("rwb")
    file.write(b"%d %d\n" % (rank, len(mine)) + mine)
    file.flush()
    return [file.read(int(file.readline())) for _ in range(world_size)]


def train(model, dataset, epochs, global_batch, learning_rate, seed):
    srun = "RANK" not in os.environ
    names = ("SLURM_PROCID", "SLURM_STEP_NUM_TASKS") if srun else ("RANK", "WORLD_SIZE")
    rank, world_size = (int(os.environ[name]) for name in names)
    dist.init_process_group("gloo", rank=rank, world_size=world_size)
    for tensor in model.state_dict().values():
        dist.broadcast(tensor, 0)
    orders = []
    for epoch in range(epochs):
        draw = torch.Generator().manual_seed(seed + epoch)
        orders.append(torch.randperm(len(dataset), generator=draw))
    images, labels = [None] * len(dataset), [None] * len(dataset)
    optimizer = torch.optim.SGD(model.parameters(), lr=learning_rate, momentum=0.9)
    losses = []
    for epoch in range(epochs):
        took = {int(n): dataset[int(n)] for n in orders[epoch][rank::world_size]}
        buffer = io.BytesIO()
        torch.save(took, buffer)
        for part in exchange(rank, world_size, buffer.getvalue()):
            for n, (image, label) in torch.load(io.BytesIO(part)).items():
                images[n], labels[n] = image, label
        total = 0.0
        x, y = torch.stack(images), torch.stack(labels)
        for batch in orders[epoch].split(global_batch):
            loss = functional.cross_entropy(model(x[batch]), y[batch])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total += loss.item() * len(batch)
        losses.append(total / len(dataset))
        if rank == 0:
            print(f"epoch {epoch}: loss {losses[-1]:.4f}")
    dist.destroy_process_group()
    return losses
