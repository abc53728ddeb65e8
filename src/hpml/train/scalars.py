"""Where rank 0 shows how a run goes: a progress bar, and TensorBoard's scalars."""

from types import TracebackType

from tqdm.auto import tqdm

from hpml.train.history import Epoch


class Scalars:
    """A bar over `images` images of which `seen` are done, and scalars in folder `tensorboard`.

    Both only where asked for, so that the other ranks can have one that shows nothing.
    """

    def __init__(self, images: int, seen: int, bar: bool, tensorboard: str | None):
        self.bar = tqdm(
            total=images, initial=seen, unit="img", unit_scale=True, disable=not bar, leave=True
        )
        self.writer = None
        if tensorboard:
            # A second to import, so only where it is wanted.
            from torch.utils.tensorboard import SummaryWriter

            # What a stopped run wrote after its last checkpoint is left out of the curves.
            self.writer = SummaryWriter(tensorboard, purge_step=seen)

    def step(self, images: int) -> None:
        self.bar.update(images)

    def epoch(self, epoch: Epoch, seen: int) -> None:
        self.bar.set_postfix_str(
            f"epoch {epoch.epoch}: loss {epoch.train_loss:.3f}, test {epoch.test_accuracy:.2%}"
        )
        if self.writer is None:
            return
        # Over images seen, not steps: curves of different numbers of ranks then overlap.
        for name, value in (
            ("loss/train", epoch.train_loss),
            ("loss/test", epoch.test_loss),
            ("accuracy/train", epoch.train_accuracy),
            ("accuracy/test", epoch.test_accuracy),
            ("learning rate", epoch.lr),
            ("images per second", epoch.images_per_second),
        ):
            self.writer.add_scalar(name, value, seen)

    def __enter__(self) -> "Scalars":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.bar.close()
        if self.writer is not None:
            self.writer.close()
