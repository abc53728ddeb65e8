"""The loader that a learner of fix_the_loader is given: right, and slow.

Its faults are real ones: a file that is opened for each image, one image at a time, pixels one at a
time, each taken from an array and put into an array by its index, and floats of 64 bit.
"""

import os
from collections.abc import Iterator

import numpy as np
import torch

MEAN = (0.4914, 0.4822, 0.4465)  # of red, green and blue, where black is 0 and white is 1
STD = (0.2470, 0.2435, 0.2616)


class SlowLoader:
    """Batches of images, shuffled, cropped and mirrored anew in each epoch.

    The file has a record of 3073 bytes for each image: its label, then 1024 bytes of red, of green
    and of blue, row by row.
    """

    def __init__(self, path: str, batch_size: int, generator: torch.Generator) -> None:
        self.path, self.batch_size, self.generator = path, batch_size, generator

    def __iter__(self) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
        number = os.path.getsize(self.path) // 3073
        order = torch.randperm(number, generator=self.generator).tolist()
        for start in range(0, number, self.batch_size):
            samples = [self.sample(place) for place in order[start : start + self.batch_size]]
            images = torch.from_numpy(np.stack([image for image, _ in samples]))
            yield images.to(torch.float32), torch.tensor([label for _, label in samples])

    def sample(self, place: int) -> tuple[np.ndarray, int]:
        with open(self.path, "rb") as file:
            record = file.read()[3073 * place : 3073 * (place + 1)]
        top, left = torch.randint(0, 9, (2,), generator=self.generator).tolist()
        mirrored = torch.randint(0, 2, (1,), generator=self.generator).item() == 1
        image = np.empty((3, 32, 32))
        for channel in range(3):
            padded = np.zeros((40, 40))  # 4 black pixels on every side
            for y in range(32):
                for x in range(32):
                    padded[y + 4, x + 4] = record[1 + 1024 * channel + 32 * y + x]
            for y in range(32):
                for x in range(32):
                    column = 31 - x if mirrored else x
                    value = padded[top + y, left + column] / 255
                    image[channel, y, x] = (value - MEAN[channel]) / STD[channel]
        return image, record[0]
