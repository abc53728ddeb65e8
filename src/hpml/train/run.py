"""A training run on one rank: network, optimizer, data, and position."""

import contextlib
import dataclasses
import math
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.profiler import record_function

from hpml import distributed_environment
from hpml.data import Data, augment, load, normalize
from hpml.data.batches import send
from hpml.errors import UserError
from hpml.machine.freed_memory import keep_freed_memory
from hpml.train import (
    backends,
    checkpoint,
    hardware,
    learning_rate,
    loaders,
    requests,
    shards,
    state,
)
from hpml.train.compiled import compiled
from hpml.train.config import TrainConfig
from hpml.train.device_images import Images
from hpml.train.history import Epoch, History
from hpml.train.lookahead import Lookahead
from hpml.train.networks import make_network, make_optimizer
from hpml.train.observer import Observer, Observers
from hpml.train.totals import Totals, means

WHITENING_IMAGES = 5_000
TEST_BATCH = 500
SHIFT = 2  # pixels, at most, by which an image is moved in each direction
NOBODY = Observer()
Ready = tuple[Tensor, Tensor]  # pixels float32 [B, 3, S, S] and labels int64 [B], on the device


@dataclass
class Position:
    """Where a run is: all that a checkpoint holds besides weights and momentum."""

    epoch: int = 0  # epochs done
    consumed: int = 0  # images of this epoch's order that all ranks together have seen
    seconds: float = 0.0  # of training, in this epoch
    sums: list[float] = field(
        default_factory=lambda: [0.0, 0.0, 0.0]
    )  # loss, right, images; of all ranks
    epochs: list[Epoch] = field(default_factory=list)


def train(config: TrainConfig) -> History:
    """Train with `config`, on the ranks that the environment describes.

    All ranks return the same History; rank 0 writes the files. In a process group that is there
    already (in a notebook, a check), its ranks take part.

    Raises UserError for data, devices or checkpoints that cannot be used.
    """
    with prepared(config) as (run, asked):
        return run.train(asked)


@contextlib.contextmanager
def prepared(config: TrainConfig) -> Iterator[tuple["Run", requests.Requests]]:
    """A run that has not begun, its ranks met, and what it is asked for meanwhile.

    Raises UserError as `train` does.
    """
    process = distributed_environment.read()
    device = hardware.pick_device(config.device, process.local_rank)
    keep_freed_memory()
    threads_before = torch.get_num_threads()
    torch.set_num_threads(config.threads or threads_before)
    try:
        with (
            backends.joined(config.backend, process, device),
            requests.listen(bool(config.checkpoint)) as asked,
        ):
            yield Run(config, load(config.data), device), asked
    finally:
        torch.set_num_threads(threads_before)


class Run:
    """The network, its optimizer and its data on one rank."""

    def __init__(self, config: TrainConfig, data: Data, device: torch.device):
        self.config, self.data, self.device = config, data, device
        self.backend = backends.for_run(config, device)
        self.rank, self.world_size = self.backend.rank, self.backend.world_size
        # Copies of the network: ranks that share one see the same images.
        self.replica, self.replicas = self.backend.replica, self.backend.replicas
        self.images = min(config.samples or len(data.train), len(data.train))
        self.training, self.testing = (Images(s, device) for s in (data.train, data.test))
        self.precision = hardware.pick_precision(config.precision, device)
        self.lr = config.lr * learning_rate.RULES[config.lr_rule](self.replicas)

        # The same numbers on all ranks; a caller's own random numbers stay as they are.
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(config.seed)
            first = torch.from_numpy(data.train.images[: min(WHITENING_IMAGES, self.images)])
            network = make_network(config, normalize(first))
            self.first_mirrored = torch.randint(0, 2, (self.images,))
        self.parameters = sum(parameter.numel() for parameter in network.parameters())
        # Channels last is the layout that the fast convolutions want, on CPUs and GPUs alike;
        # fully_shard takes no such weights, and they are made so when they are used.
        self.channels_last = config.memory_format == "channels_last"
        last = self.channels_last and config.shard != "fsdp"
        layout = torch.channels_last if last else torch.contiguous_format
        self.network = self.backend.split(network.to(device, memory_format=layout))
        optimizer = make_optimizer(self.network, config, self.lr)
        self.parallel, self.optimizer = self.backend.parallel(self.network, optimizer)
        if config.compile:
            self.parallel = compiled(self.parallel, device)
        self.lookahead = Lookahead(self.network) if config.lookahead else None
        self.position = Position()
        self.steps = 0  # of this process, over epochs: with many ranks an epoch is a few steps
        self.resume()

    def train(self, asked: requests.Requests) -> History:
        config, stopped = self.config, False
        with self.observers() as observers:
            while self.position.epoch < config.epochs and not stopped:
                stopped = self.train_epoch(asked, observers)
        history = self.history(stopped)
        if config.out and self.rank == 0:
            history.write(config.out)
        return history

    def observers(self) -> Observers:
        """Those that the options ask for on this rank: in most runs and on most ranks, none."""
        config = self.config
        found: list[Any] = []
        seen = self.position.epoch * self.images + self.position.consumed
        if config.progress and self.rank == 0:
            from hpml.train import progress_bar, progress_lines

            if progress_lines.is_log():
                done, begun = self.position.epoch, bool(self.position.consumed)
                found.append(progress_lines.ProgressLines(config.epochs, done, begun))
            else:
                found.append(progress_bar.ProgressBar(config.epochs * self.images, seen))
        if config.tensorboard and self.rank == 0:
            from hpml.train.events import Events

            found.append(Events(config, self.network, self.data.classes, seen))
        if config.profile:
            from hpml.train import profiled_steps

            self.refuse_profile(profiled_steps.WAIT + profiled_steps.WARM_UP)
            if self.rank in config.profile:
                folder, cuda = config.tensorboard, self.device.type == "cuda"
                found.append(profiled_steps.ProfiledSteps(folder, self.rank, self.world_size, cuda))
        return Observers(*found)

    def refuse_profile(self, before: int) -> None:
        """Raise UserError, on all ranks, where a rank to profile is not there, or no step is left
        after the `before` that are not recorded.
        """
        config = self.config
        if max(config.profile) >= self.world_size:
            raise UserError(
                f"--profile asks for rank {max(config.profile)}, and the last rank is "
                f"{self.world_size - 1}: name ranks from 0 to {self.world_size - 1}"
            )
        in_epoch = math.ceil(self.images / (self.replicas * config.batch_size))
        done = self.position.consumed // (self.replicas * config.batch_size)  # in this epoch
        steps = (config.epochs - self.position.epoch) * in_epoch - done
        if steps <= before:
            raise UserError(
                f"--profile records no step before the {before + 1}th, and this run has {steps}: "
                "give it more --epochs, or a smaller --batch-size"
            )

    def train_epoch(self, asked: requests.Requests, observers: Observers) -> bool:
        """Train the rest of this epoch, test, save a checkpoint. True when asked to stop."""
        config, position, replicas = self.config, self.position, self.replicas
        order = shards.epoch_order(self.images, config.seed, position.epoch)
        shard = shards.training_shard(order, self.replica, replicas, position.consumed)
        # Rank 0 goes on counting from what all ranks together had counted when they stopped.
        totals = Totals(self.device, position.sums if self.rank == 0 else None)
        started = time.perf_counter() - position.seconds
        self.network.train()
        batches = shards.split(shard, config.batch_size)
        for index, ready in self.loaded(batches):
            before = self.progress()
            self.step(index, totals, observers, ready)
            self.steps += 1
            seen = min(len(index) * replicas, self.images - position.consumed)
            position.consumed += seen
            if self.lookahead:
                with record_function("optimizer"):
                    self.lookahead.step(before, self.progress())
            observers.step(seen)
            if request := asked.agreed(self.steps, self.device):
                position.seconds = time.perf_counter() - started
                self.save(totals.over_ranks())
                if request == requests.SAVE_AND_STOP:
                    return True
                # The time of saving does not count
                started = time.perf_counter() - position.seconds
        sums = totals.over_ranks()  # Waits for all ranks, and so for the end of the last step.
        seconds = time.perf_counter() - started
        train_loss, train_accuracy = means(sums)
        test_loss, test_accuracy = self.test(observers)
        epoch = Epoch(
            epoch=position.epoch + 1,
            train_loss=train_loss,
            train_accuracy=train_accuracy,
            test_loss=test_loss,
            test_accuracy=test_accuracy,
            lr=self.lr * self.schedule(),
            seconds=seconds,
            images_per_second=float(sums[2]) / seconds,
        )
        self.position = Position(position.epoch + 1, epochs=[*position.epochs, epoch])
        observers.epoch(epoch)
        self.save(torch.zeros(3, dtype=torch.float64))
        return False

    def loaded(self, batches: Sequence[Tensor]) -> Iterator[tuple[Tensor, Ready | None]]:
        """The batches of an epoch, one after the other; ready already if the loader is ahead."""
        if self.config.loader != "ahead":
            yield from ((index, None) for index in batches)
            return
        consumed, begins = self.position.consumed, []
        for index in batches:
            begins.append(consumed)
            consumed += len(index) * self.replicas
        yield from zip(batches, loaders.ahead(self.ready, batches, begins), strict=True)

    def step(
        self,
        index: Tensor,
        totals: Totals,
        observers: Observer = NOBODY,
        ready: Ready | None = None,
    ) -> None:
        """One step on the training images `index`, int64 [B]; they are added to `totals`.

        `ready` are those images, where they have been made ready before. The step's phases have
        names, by which a profiler's trace has them too.
        """
        pixels, labels = ready or self.ready(index, self.position.consumed)
        for group in self.optimizer.param_groups:
            group["lr"] = group["peak"] * self.schedule()
        observers.batch(pixels)
        self.optimizer.zero_grad()
        counted = self.backend.gradients(self.called, self.losses, pixels, labels)
        with record_function("optimizer"):
            self.optimizer.step()
        if counted:
            totals.add(counted[0], labels, counted[1])

    def ready(self, index: Tensor, consumed: int) -> Ready:
        """Training images `index`, int64 [B], as the network takes them, and their labels [B].

        `consumed` is how much of the epoch was seen before them, by all ranks.
        """
        config = self.config
        # Small images first: they teach the coarse features at half the cost (progressive
        # resizing; Howard et al. 2018, https://www.fast.ai/posts/2018-08-10-fastai-diu-imagenet.html).
        early = self.progress(consumed) < (config.early_share or 0)
        size = config.early_size if early else None
        if config.loader == "images":
            pixels, labels = loaders.image_by_image(
                self.data.train, index, self.mirrored(index), self.draws(consumed), SHIFT
            )
            return self.laid_out(pixels.to(self.device), size), labels.to(self.device)
        with record_function("loading"):
            images, labels = self.training.batch(index)
        with record_function("transforms"):
            return self.pixels(self.augment(images, index, consumed), size), labels

    def progress(self, consumed: int | None = None) -> float:
        """The share of the whole training that is done, in [0, 1]: now, or with so much of this
        epoch seen.
        """
        position = self.position
        consumed = position.consumed if consumed is None else consumed
        return (position.epoch + consumed / self.images) / self.config.epochs

    def schedule(self) -> float:
        """The share of the highest learning rate that is due now."""
        return learning_rate.shape(self.progress(), self.config.warmup)

    def augment(self, images: Tensor, index: Tensor, consumed: int | None = None) -> Tensor:
        """Shift at random; mirror every image in every other epoch (Jordan 2024, section 3.6).

        The draws follow from seed, epoch, place in the epoch (`consumed`: now, if it is left out)
        and copy, so that there is no state of a generator to keep in a checkpoint.
        """
        consumed = self.position.consumed if consumed is None else consumed
        mirrored = send(self.mirrored(index), images.device).view(-1, 1, 1, 1)
        images = torch.where(mirrored, images.flip(3), images)
        return augment(images, self.draws(consumed), pad=SHIFT, flip=False)

    def mirrored(self, index: Tensor) -> Tensor:
        """Which of the images `index` are mirrored in this epoch, bool [B]."""
        return (self.first_mirrored[index] + self.position.epoch) % 2 == 1

    def draws(self, consumed: int) -> torch.Generator:
        """The random numbers of the batch that begins there in this epoch."""
        draw = (self.config.seed, self.position.epoch, consumed, self.replica)
        return torch.Generator().manual_seed(hash(draw) & (2**63 - 1))

    def pixels(self, images: Tensor, size: int | None = None) -> Tensor:
        """Normalised images, float32, of images uint8 [B, 3, 32, 32], shrunk to `size` if asked."""
        return self.laid_out(normalize(images, channels_last=self.channels_last), size)

    def laid_out(self, pixels: Tensor, size: int | None = None) -> Tensor:
        """Normalised images in the memory format asked for, shrunk to `size` if asked."""
        if size is not None and size != pixels.shape[-1]:
            pixels = F.interpolate(pixels, size=(size, size), mode="bilinear")
        layout = torch.channels_last if self.channels_last else torch.contiguous_format
        return pixels.contiguous(memory_format=layout)

    def logits(self, pixels: Tensor, network: nn.Module | None = None) -> Tensor:
        """Logits, float32 [B, 10], of normalised images."""
        mixed = self.precision != torch.float32
        network = self.network if network is None else network
        with torch.autocast(self.device.type, self.precision, enabled=mixed):
            return network(pixels).float()

    def called(self, pixels: Tensor) -> Tensor:
        """What the network makes of normalised images while it is trained."""
        with record_function("forward"):
            return self.logits(pixels, self.parallel)

    def losses(self, logits: Tensor, labels: Tensor) -> Tensor:
        """Cross-entropy of each image, [B]."""
        smoothing = self.config.label_smoothing
        with record_function("forward"):
            return F.cross_entropy(logits, labels, reduction="none", label_smoothing=smoothing)

    def test(self, observers: Observer = NOBODY) -> tuple[float, float]:
        """Mean loss and accuracy over all test images, exact whatever the shards. A collective."""
        self.average_statistics()
        self.network.eval()
        totals = Totals(self.device)
        with torch.no_grad():
            count = min(self.config.test_samples or len(self.data.test), len(self.data.test))
            for index in shards.evaluation_batches(count, self.replica, self.replicas, TEST_BATCH):
                images, labels = self.testing.batch(index)
                logits = self.backend.logits(self.logits, self.pixels(images))
                if logits is not None:
                    totals.add(logits, labels)
                    observers.tested(images, labels, logits)
            return means(totals.over_ranks())

    def average_statistics(self) -> None:
        """Make normalisation's running means and variances those of all ranks' batches.

        They are linear in the batches' statistics, so that it makes no difference when, and how
        often, they are averaged between one use and the next.
        """
        if self.world_size == 1:
            return
        running = [buffer for buffer in self.network.buffers() if buffer.is_floating_point()]
        if not running:
            return
        if self.lookahead:
            slow = self.lookahead.slow
            running += [slow[name] for name, _ in self.network.named_buffers() if name in slow]
        flat = torch.cat([buffer.flatten() for buffer in running])
        self.backend.sum(flat)
        flat /= self.world_size
        for buffer, mean in zip(running, flat.split([b.numel() for b in running]), strict=True):
            buffer.copy_(mean.view_as(buffer))

    def save(self, sums: Tensor) -> None:
        """Write a checkpoint, where one is wanted. All ranks call this."""
        if not self.config.checkpoint:
            return
        self.average_statistics()
        self.position.sums = sums.tolist()
        plain = {"position": dataclasses.asdict(self.position), "run": self.identity()}
        self.backend.save(Path(self.config.checkpoint), plain, self.tensors())

    def tensors(self) -> dict[str, Tensor]:
        """What this rank has of the network, the optimizer's states and the slow weights."""
        slow = self.lookahead.slow if self.lookahead else None
        return state.tensors(self.network, self.optimizer, slow)

    def resume(self) -> None:
        """Continue from the checkpoint, if that is asked for and there is one."""
        saved = checkpoint.load(self.config.checkpoint) if self.config.resume else None
        if saved is None:
            return
        identity = self.identity()
        if saved["run"].get("step") == identity["step"]:
            # As many images in a step of all copies together: how many each has does not matter.
            saved["run"]["batch_size"] = identity["batch_size"]
        for name in identity.keys() - {"step"}:
            then, now = saved["run"].get(name), identity[name]
            if then != now:
                raise UserError(
                    f"--resume: the checkpoint in {self.config.checkpoint} is of a run with {name} "
                    f"{then}, this one has {now}: give it the same, or another --checkpoint folder"
                )
        if self.rank == 0:
            self.mention_other_steps(saved["run"].get("step", identity["step"]), identity["step"])
        folder = Path(self.config.checkpoint)
        state.allocate(self.network, self.optimizer, checkpoint.names(saved))
        self.backend.load(folder, saved, self.tensors())
        position = saved["position"]
        epochs = [Epoch(**epoch) for epoch in position.pop("epochs")]
        self.position = Position(**position, epochs=epochs)

    def mention_other_steps(self, then: int, now: int) -> None:
        """Say in a line that another number of copies with the same batches makes other steps."""
        own, rest = divmod(then, self.replicas)
        same = "" if rest else f"; --batch-size {own} makes it {then} again"
        if then != now:
            print(
                f"--resume: a step of all ranks was {then} images before the stop, and is {now} "
                f"now{same}",
                file=sys.stderr,
            )

    def identity(self) -> dict[str, Any]:
        """What must be the same before and after a stop for the whole to be one run."""
        config = dataclasses.asdict(self.config)
        names = ("model", "size", "epochs", "batch_size", "lr", "seed", "widths", "lookahead")
        names += ("early_size", "early_share")
        step = {"step": config["batch_size"] * self.replicas}
        return {"images": self.images} | step | {name: config[name] for name in names}

    def history(self, stopped: bool) -> History:
        config = self.config
        return History(
            config=dataclasses.asdict(config),
            data=self.data.describe(),
            synthetic=self.data.synthetic,
            world_size=self.world_size,
            threads=torch.get_num_threads(),
            device=self.device.type,
            precision=str(self.precision).removeprefix("torch."),
            parameters=self.parameters,
            epochs=tuple(self.position.epochs),
            stopped=stopped,
        )
