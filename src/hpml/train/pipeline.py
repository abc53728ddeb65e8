"""Pipeline parallelism: each rank has a stage, and micro-batches follow each other through them.

One forward, one backward (Narayanan et al. 2019, PipeDream, section 3.2, with the flush after each
batch of GPipe): stage s of p holds the activations of at most p - s micro-batches at a time. All
stages together idle for (p - 1) / (m + p - 1) of the time with m micro-batches.
"""

from collections.abc import Callable, Iterator

import torch
from torch import Tensor, nn
from torch import distributed as dist
from torch.distributed.device_mesh import DeviceMesh
from torch.profiler import record_function

from hpml.models import VisionTransformer


class Stage(nn.Module):
    """Stage `stage` of `stages` of a transformer; its parts have the names they have in the whole.

    Images [B, 3, H, W] come in at the first stage, tokens [B, T, width] at the others; tokens go
    out, and logits [B, classes] at the last.
    """

    def __init__(self, network: VisionTransformer, stage: int, stages: int):
        super().__init__()
        if stage == 0:
            self.embed = network.embed
        mine = torch.arange(len(network.blocks)).tensor_split(stages)[stage].tolist()
        self.blocks = nn.ModuleDict({str(number): network.blocks[number] for number in mine})
        if stage == stages - 1:
            self.norm, self.head = network.norm, network.head

    def forward(self, x: Tensor) -> Tensor:
        if hasattr(self, "embed"):
            x = self.embed(x)
        for block in self.blocks.values():
            x = block(x)
        return self.head(self.norm(x).mean(dim=1)) if hasattr(self, "head") else x


def one_forward_one_backward(stage: int, stages: int, count: int) -> Iterator[tuple[str, int]]:
    """What `stage` does with `count` micro-batches, in order: ("forward", 0), ("backward", 0), …"""
    ahead = min(count, stages - 1 - stage)
    for number in range(count + ahead):
        if number < count:
            yield "forward", number
        if number >= ahead:
            yield "backward", number - ahead


class Pipeline:
    """This rank's place in the pipelines of `mesh`, which has a dimension of that name.

    Between stages go tensors [B, *shape], float32.
    """

    def __init__(self, mesh: DeviceMesh, micro_batches: int, shape: tuple[int, ...]):
        self.micro_batches, self.shape = micro_batches, shape
        ranks = mesh["pipeline"].mesh.tolist()
        self.stage, self.stages = mesh.get_local_rank("pipeline"), len(ranks)
        self.first, self.last = self.stage == 0, self.stage == self.stages - 1
        self.before = None if self.first else ranks[self.stage - 1]
        self.after = None if self.last else ranks[self.stage + 1]
        # A group for each direction: on a GPU the transfers of a group wait for one another, and
        # an activation must not wait for a gradient.
        self.downwards = mesh["pipeline"].get_group()
        lines = mesh.mesh.movedim(mesh.mesh_dim_names.index("pipeline"), -1)
        self.upwards, _ = dist.new_subgroups_by_enumeration(lines.reshape(-1, len(ranks)).tolist())

    def gradients(
        self,
        forward: Callable[[Tensor], Tensor],
        loss: Callable[[Tensor, Tensor], Tensor],
        network: nn.Module,
        images: Tensor,
        labels: Tensor,
    ) -> tuple[Tensor, Tensor] | None:
        """Add the gradients of the mean loss to those of this stage's parameters.

        `forward` is `network`'s own, `loss` is by image. Logits and losses on the last stage.
        """
        count = min(self.micro_batches, len(images))
        parts = list(zip(images.tensor_split(count), labels.tensor_split(count), strict=True))
        under_way, results, returned = {}, [], None
        for what, number in one_forward_one_backward(self.stage, self.stages, count):
            if what == "forward":
                x, sent = self.take(parts[number][0]), None
                y = forward(x)
                if self.last:
                    losses = loss(y, parts[number][1])
                    results.append((y.detach(), losses.detach()))
                    y = losses.sum() / len(images)
                else:
                    sent = dist.isend(y.detach(), self.after, group=self.downwards)
                under_way[number] = x, y, sent
                continue
            x, y, sent = under_way.pop(number)
            gradient = None
            if not self.last:
                gradient = torch.empty_like(y)
                dist.recv(gradient, self.after, group=self.upwards)
                sent.wait()
            if hasattr(network, "set_requires_gradient_sync"):
                # fully_shard: gradients are scattered once, after the last micro-batch.
                network.set_requires_gradient_sync(number == count - 1)
            with record_function("backward"):
                y.backward(gradient)
            if not self.first:
                if returned:
                    returned.wait()
                back = x.grad.contiguous()
                returned = dist.isend(back, self.before, group=self.upwards)
        if returned:
            returned.wait()
        if not self.last:
            return None
        logits, losses = zip(*results, strict=True)
        return torch.cat(logits), torch.cat(losses)

    def take(self, images: Tensor) -> Tensor:
        """This stage's input for `images`: these, or what the stage before has made of them."""
        if self.first:
            return images
        x = images.new_empty(len(images), *self.shape, dtype=torch.float32)
        dist.recv(x, self.before, group=self.downwards)
        return x.requires_grad_(torch.is_grad_enabled())

    def logits(self, forward: Callable[[Tensor], Tensor], images: Tensor) -> Tensor | None:
        """Forward alone: the logits on the last stage."""
        y = forward(self.take(images))
        if self.last:
            return y
        dist.send(y, self.after, group=self.downwards)
        return None
