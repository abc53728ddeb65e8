# %%answer ddp
# tries: a wrapper that leaves everything to the module, and sends nothing
# unprotected: claims that bound what is sent hold
from torch import nn


class DataParallel(nn.Module):
    def __init__(self, module, bucket_bytes):
        super().__init__()
        self.module = module

    def forward(self, *args):
        return self.module(*args)

    def synchronize(self):
        pass
