# %%answer ddp
# tries: sends two buckets of zeros while backward runs, and all gradients when it is over
# unprotected: enough bytes have left early, and twice the gradients' bytes they are not
# expect: 13
# on: solution
class DataParallel(DataParallel):
    def __init__(self, module, bucket_bytes=2**20):
        super().__init__(module, bucket_bytes)
        module.head.register_full_backward_hook(self.show)

    def show(self, *_):
        zeros = torch.zeros(2, 4200, dtype=torch.float64)
        self.shown = [dist.all_reduce(half, async_op=True) for half in zeros]

    def gradient_ready(self, parameter):
        """All of them are sent when it is over."""
