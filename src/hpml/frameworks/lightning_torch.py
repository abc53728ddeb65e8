"""A small network on CIFAR-10 with PyTorch Lightning, in one process or several."""

import lightning
import torch
from torch.nn.functional import cross_entropy
from torch.utils.data import DataLoader

from hpml.frameworks import task


class Cifar(lightning.LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.model = task.torch_network()
        self.clock = task.Clock()

    def training_step(self, batch: list[torch.Tensor], _: int) -> torch.Tensor:
        return cross_entropy(self.model(batch[0]), batch[1])

    def on_train_batch_end(self, _: object, batch: list[torch.Tensor], __: int) -> None:
        self.clock.step(len(batch[1]))

    def configure_optimizers(self) -> torch.optim.Optimizer:
        learning_rate = task.LEARNING_RATE * self.trainer.world_size
        return torch.optim.SGD(self.parameters(), lr=learning_rate, momentum=0.9)


if __name__ == "__main__":
    lightning.seed_everything(task.SEED, verbose=False)
    loader = DataLoader(task.torch_images("train"), batch_size=task.BATCH, shuffle=True)
    quiet = {"logger": False, "enable_checkpointing": False, "enable_progress_bar": False}
    trainer = lightning.Trainer(
        accelerator="cpu",
        devices=2,
        strategy="ddp",
        max_epochs=task.EPOCHS,
        enable_model_summary=False,
        **quiet,
    )
    module = Cifar()
    trainer.fit(module, loader)
    if trainer.is_global_zero:
        accuracy = task.torch_accuracy(module.model)
        task.report(module.clock, accuracy, trainer.world_size)
