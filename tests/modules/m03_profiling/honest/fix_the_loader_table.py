# %%answer fix_the_loader
# unusual: a mapped file, a table of the 256 values of each colour, and a thread that is one batch
# ahead
import queue
import threading

import numpy as np
import torch

LEVELS = torch.arange(256, dtype=torch.float64)[None] / 255
TABLE = (
    (LEVELS - torch.tensor([[0.4914], [0.4822], [0.4465]], dtype=torch.float64))
    / torch.tensor([[0.2470], [0.2435], [0.2616]], dtype=torch.float64)
).float()
COLOUR = 256 * torch.arange(3, dtype=torch.int32).view(3, 1, 1)


class Loader:
    def __init__(self, path, batch_size, generator):
        self.records = np.memmap(path, dtype=np.uint8, mode="r").reshape(-1, 3073)
        self.batch_size, self.generator = batch_size, generator

    def batches(self):
        order = torch.randperm(len(self.records), generator=self.generator).numpy()
        for chosen in np.split(order, range(self.batch_size, len(order), self.batch_size)):
            records = torch.from_numpy(self.records[chosen])
            padded = torch.nn.functional.pad(records[:, 1:].view(-1, 3, 32, 32), (4,) * 4)
            draws = torch.rand(3, len(chosen), generator=self.generator)
            crops = []
            for image, (a, b, head) in zip(padded, draws.T.tolist(), strict=True):
                crop = image[:, int(9 * a) : int(9 * a) + 32, int(9 * b) : int(9 * b) + 32]
                crops.append(crop.flip(2) if head < 0.5 else crop)
            images = TABLE.flatten()[torch.stack(crops).int() + COLOUR]
            yield images, records[:, 0].long()

    def __iter__(self):
        ahead = queue.Queue(maxsize=1)

        def read():
            for batch in self.batches():
                ahead.put(batch)
            ahead.put(None)

        threading.Thread(target=read, daemon=True).start()
        return iter(ahead.get, None)
