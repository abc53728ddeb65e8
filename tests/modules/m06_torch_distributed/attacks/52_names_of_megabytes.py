# %%answer ddp
# tries: gives the model a parameter and a buffer whose names have 120,000 characters
# unprotected: a sentence of the record has the name of what should not be there
# on: 24_wraps_nothing
import torch


class DataParallel(DataParallel):
    def __init__(self, module, bucket_bytes):
        super().__init__(module, bucket_bytes)
        module.register_buffer("x" * 120_000, torch.zeros(1, dtype=torch.float64))
        parameter = torch.nn.Parameter(torch.zeros(1, dtype=torch.float64))
        module.register_parameter("y" * 120_000, parameter)
