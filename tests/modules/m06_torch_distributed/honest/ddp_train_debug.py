# %%answer ddp_train
# unusual: TORCH_DISTRIBUTED_DEBUG=DETAIL, a cleanup with try and finally, averages with ReduceOp.AVG's cousin
import os
import signal
import sys

os.environ["TORCH_DISTRIBUTED_DEBUG"] = "DETAIL"
os.environ["OMP_NUM_THREADS"] = "1"

import torch
import torch.distributed as dist
from torch.nn.functional import cross_entropy
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import BatchSampler, DataLoader, DistributedSampler

torch.manual_seed(1234)


def environment():
    table = {"RANK": "PROCID", "WORLD_SIZE": "STEP_NUM_TASKS", "LOCAL_RANK": "LOCALID"}
    if "RANK" not in os.environ:
        os.environ.update({k: os.environ[f"SLURM_{v}"] for k, v in table.items()})
    return [int(os.environ[k]) for k in table]


def stopped(number, frame):
    print(f"signal {number}", file=sys.stderr)
    raise SystemExit(128 + number)


class Trainer:
    def __init__(self, model, dataset, global_batch, learning_rate, seed, device):
        self.rank, self.size, self.device = dist.get_rank(), dist.get_world_size(), device
        self.model = DistributedDataParallel(
            model.to(device), broadcast_buffers=False, bucket_cap_mb=1, find_unused_parameters=False
        )
        self.optimizer = torch.optim.SGD(self.model.parameters(), learning_rate, momentum=0.9)
        self.sampler = DistributedSampler(dataset, self.size, self.rank, seed=seed, drop_last=True)
        batches = BatchSampler(self.sampler, global_batch // self.size, drop_last=False)
        self.loader = DataLoader(dataset, batch_sampler=batches, pin_memory=False)

    def epoch(self, number):
        self.sampler.set_epoch(number)
        sums = torch.zeros(2, dtype=torch.float64, device=self.device)
        for images, labels in self.loader:
            self.optimizer.zero_grad(set_to_none=False)
            output = self.model(images.to(self.device))
            loss = cross_entropy(output, labels.to(self.device))
            loss.backward()
            self.optimizer.step()
            sums += torch.stack([loss.detach() * len(labels), loss.new_tensor(len(labels))])
        dist.reduce(sums, dst=0)
        dist.broadcast(sums, src=0)
        return (sums[0] / sums[1]).item()


def train(model, dataset, epochs, global_batch, learning_rate, seed):
    rank, size, local = environment()
    signal.signal(signal.SIGTERM, stopped)
    device = torch.device("cpu")
    if torch.cuda.is_available():
        device = torch.device("cuda", local)
    dist.init_process_group("cpu:gloo" if device.type == "cpu" else "nccl")
    try:
        trainer = Trainer(model, dataset, global_batch, learning_rate, seed, device)
        losses = []
        for number in range(epochs):
            losses.append(trainer.epoch(number))
            if rank == 0:
                sys.stdout.write(f"epoch {number}: loss {losses[-1]:.4f}\n")
        return losses
    finally:
        dist.destroy_process_group()
