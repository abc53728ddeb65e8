# %%answer fsdp
# tries: keeps 1/W of each weight in the launch whose memory and bytes are counted, where it computes
# nothing, and sends as many bytes for show
# unprotected: memory and bytes are those of a step
# expect: 12
# on: solution
class FullyShard(FullyShard):
    def forward(self, *inputs, **options):
        self.counted = len(self.sharded) == 16
        if not self.counted:
            return super().forward(*inputs, **options)
        for _ in range(2):
            for weight in self.sharded.values():
                weight.take()
        return inputs[0] + 0 * sum(shard.sum() for shard in self.sharded)

    def synchronize(self):
        if not self.counted:
            return super().synchronize()
        for weight in self.sharded.values():
            sent = torch.zeros(weight.padded)
            dist.all_to_all_single(torch.empty_like(sent), sent)
