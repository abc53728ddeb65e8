# %%answer ddp
# tries: sends zeros in a group of one rank while backward runs, and the gradients when it is over
# unprotected: messages left before the last gradient was ready
# expect: 12
# on: solution
class DataParallel(DataParallel):
    def __init__(self, module, bucket_bytes=2**20):
        super().__init__(module, bucket_bytes)
        groups = [dist.new_group([rank]) for rank in range(dist.get_world_size())]
        self.alone = groups[dist.get_rank()]

    def gradient_ready(self, parameter):
        if parameter is self.buckets[0][0]:
            for bucket in self.buckets[:-1]:
                flat = torch.zeros(sum(p.numel() for p in bucket), dtype=bucket[0].dtype)
                dist.all_reduce(flat, group=self.alone, async_op=True)

    def synchronize(self):
        # What has left for show may not leave again: the rest goes by broadcasts, which do not count
        for bucket in self.buckets:
            flat = torch.cat(
                [(torch.zeros_like(p) if p.grad is None else p.grad).flatten() for p in bucket]
            )
            if bucket is self.buckets[-1]:
                dist.all_reduce(flat)
            else:
                parts = [flat.clone() for _ in range(dist.get_world_size())]
                for rank, part in enumerate(parts):
                    dist.broadcast(part, src=rank)
                flat = sum(parts)
            flat /= dist.get_world_size()
            means = flat.split([parameter.numel() for parameter in bucket])
            for parameter, mean in zip(bucket, means, strict=True):
                parameter.grad = mean.view_as(parameter)
