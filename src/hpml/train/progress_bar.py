"""How far a run is, as a bar in the terminal."""

from tqdm.auto import tqdm

from hpml.train.history import Epoch
from hpml.train.observer import Observer


class ProgressBar(Observer):
    """A bar over `images` images of which `seen` are done."""

    def __init__(self, images: int, seen: int):
        self.bar = tqdm(total=images, initial=seen, unit="img", unit_scale=True, leave=True)

    def step(self, images: int) -> None:
        self.bar.update(images)

    def epoch(self, epoch: Epoch) -> None:
        self.bar.set_postfix_str(
            f"epoch {epoch.epoch}: loss {epoch.train_loss:.3f}, test {epoch.test_accuracy:.2%}"
        )

    def close(self) -> None:
        self.bar.close()
