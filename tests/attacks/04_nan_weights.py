# %%answer ddp
# row: 4
# tries: fills the model with NaN and infinities
# unprotected: a comparison by `> tolerance` passes
# expect: 0
import math

import torch
from torch import nn


class DataParallel(nn.Module):
    def __init__(self, module, bucket_bytes):
        super().__init__()
        self.module = module
        with torch.no_grad():
            for parameter in module.parameters():
                parameter.fill_(math.nan)

    def forward(self, *args):
        return self.module(*args)

    def synchronize(self):
        pass
