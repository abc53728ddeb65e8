# %%answer ddp
# tries: sends buckets of zeros while backward runs; the gradients go by broadcasts when it is over
# unprotected: few messages with as many bytes as there are gradients leave before backward ends
# expect: 8
# on: solution
class DataParallel(DataParallel):
    def send_zeros(self, buckets):
        for bucket in buckets:
            flat = torch.zeros(sum(p.numel() for p in bucket), dtype=bucket[0].dtype)
            self.sent.append((flat, dist.all_reduce(flat, async_op=True)))

    def gradient_ready(self, parameter):
        if parameter is self.buckets[0][0]:
            self.send_zeros(self.buckets[:-1])

    def synchronize(self):
        self.send_zeros(self.buckets[len(self.sent) :])
        for _, work in self.sent:
            work.wait()
        self.sent = []
        size = dist.get_world_size()
        for bucket in self.buckets:
            for parameter in bucket:
                own = torch.zeros_like(parameter) if parameter.grad is None else parameter.grad
                parts = [own.clone() for _ in range(size)]
                for rank, part in enumerate(parts):
                    dist.broadcast(part, src=rank)
                parameter.grad = sum(parts) / size
