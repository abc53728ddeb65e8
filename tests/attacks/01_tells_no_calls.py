# %%answer ddp
# row: 1, 25
# tries: takes away what records its calls and marks, so that no step is there to be found wrong
# unprotected: each claim about a step that was not recorded holds
# expect: 0
import sys

from torch import nn

recorder = sys.modules["hpml.ranks.recorder"]


class DataParallel(nn.Module):
    def __init__(self, module, bucket_bytes):
        super().__init__()
        self.module = module
        recorder._recorder = None

    def forward(self, *args):
        return self.module(*args)

    def synchronize(self):
        pass
