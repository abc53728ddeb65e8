# %%answer fix_the_loader
# unusual: numpy and a generator of its own seeded from the given one, and a loop over the images
import numpy as np
import torch


class Loader:
    def __init__(self, path, batch_size, generator):
        records = np.fromfile(path, np.uint8).reshape(-1, 3073)
        self.labels = records[:, 0].astype(np.int64)
        self.images = np.pad(
            records[:, 1:].reshape(-1, 3, 32, 32), ((0, 0), (0, 0), (4, 4), (4, 4))
        )
        self.batch_size = batch_size
        self.draw = np.random.default_rng(torch.randint(2**31, (1,), generator=generator).item())
        self.mean = np.array([0.4914, 0.4822, 0.4465], np.float32).reshape(3, 1, 1)
        self.std = np.array([0.2470, 0.2435, 0.2616], np.float32).reshape(3, 1, 1)

    def __len__(self):
        return -(-len(self.labels) // self.batch_size)

    def __iter__(self):
        order = self.draw.permutation(len(self.labels))
        for start in range(0, len(order), self.batch_size):
            chosen = order[start : start + self.batch_size]
            crops = np.empty((len(chosen), 3, 32, 32), np.uint8)
            places = self.draw.integers(0, 9, (len(chosen), 2)).tolist()
            heads = self.draw.random(len(chosen)) < 0.5
            for crop, image, (top, left), head in zip(crops, chosen, places, heads, strict=True):
                part = self.images[image, :, top : top + 32, left : left + 32]
                crop[:] = part[..., ::-1] if head else part
            images = (crops.astype(np.float32) / np.float32(255) - self.mean) / self.std
            yield torch.from_numpy(images), torch.from_numpy(self.labels[chosen])
