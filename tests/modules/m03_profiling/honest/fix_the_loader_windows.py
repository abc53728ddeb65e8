# %%answer fix_the_loader
# unusual: PyTorch's own loader asks a data set for whole batches, which are windows of one view
import numpy as np
import torch
from torch.utils.data import BatchSampler, DataLoader, Dataset, RandomSampler

MEAN = torch.tensor([0.4914, 0.4822, 0.4465]).view(3, 1, 1)
STD = torch.tensor([0.2470, 0.2435, 0.2616]).view(3, 1, 1)


class Windows(Dataset):
    def __init__(self, path, generator):
        records = torch.from_numpy(np.fromfile(path, dtype=np.uint8)).view(-1, 3073)
        self.labels = records[:, 0].long()
        padded = torch.zeros(len(records), 3, 40, 40, dtype=torch.uint8)
        padded[:, :, 4:36, 4:36] = records[:, 1:].reshape(-1, 3, 32, 32)
        self.windows = padded.unfold(2, 32, 1).unfold(3, 32, 1)
        self.generator = generator

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, batch):
        batch = torch.tensor(batch)
        which = torch.randint(162, (len(batch),), generator=self.generator)
        crops = self.windows[batch, :, which % 9, which // 9 % 9]
        heads = (which >= 81).view(-1, 1, 1, 1)
        crops = torch.where(heads, crops.flip(3), crops)
        return crops.float().div_(255).sub_(MEAN).div_(STD), self.labels[batch]


class Loader:
    def __init__(self, path, batch_size, generator):
        data = Windows(path, generator)
        sampler = BatchSampler(RandomSampler(data, generator=generator), batch_size, False)
        self.loader = DataLoader(
            data, sampler=sampler, batch_size=None, generator=torch.Generator()
        )

    def __iter__(self):
        yield from self.loader
