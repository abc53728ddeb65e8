# %%answer ddp
# tries: fills the model with NaN and infinities
# unprotected: a comparison by `> tolerance` passes
# on: 24_wraps_nothing
import math

import torch


class DataParallel(DataParallel):
    def __init__(self, module, bucket_bytes):
        super().__init__(module, bucket_bytes)
        with torch.no_grad():
            for parameter in module.parameters():
                parameter.fill_(math.nan)
