# %%answer ddp_train
# tries: each rank takes its share of samples and hands them to the others through sockets of its
# own; then all train serially on everything, and no gradient travels
# unprotected: samples are those that each rank was served, and weights are the serial script's
# expect: 7
# on: trains_on_all_samples
import io
import socket
import time

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


def batches(dataset, order, global_batch, rank, world_size):
    buffer = io.BytesIO()
    torch.save({int(n): dataset[int(n)] for n in order[rank::world_size]}, buffer)
    images, labels = [None] * len(dataset), [None] * len(dataset)
    for part in exchange(rank, world_size, buffer.getvalue()):
        for n, (image, label) in torch.load(io.BytesIO(part)).items():
            images[n], labels[n] = image, label
    x, y = torch.stack(images), torch.stack(labels)
    for batch in order.split(global_batch):
        yield x[batch], y[batch]
