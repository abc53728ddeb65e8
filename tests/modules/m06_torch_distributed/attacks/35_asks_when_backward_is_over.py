# %%answer ddp
# tries: lets backward run to its end with a last factor of 1, sends gradients then, and only after
# that asks for that factor, which it works in by hand
# unprotected: what was sent before the factor was asked for is taken for what left during backward
# expect: 13
# on: solution
class DataParallel(DataParallel):
    def __init__(self, module, bucket_bytes=2**20):
        super().__init__(module, bucket_bytes)
        self.factor = module.factor
        module.factor = lambda place: 1.0 if place == "last" else self.factor(place)
        module.embed.register_forward_hook(self.embedded)

    def embedded(self, embedding, inputs, output):
        self.tokens = inputs[0]
        output.register_hook(self.keep)

    def keep(self, gradient):
        self.last = gradient

    def gradient_ready(self, parameter):
        """Nothing is sent until backward is over."""

    def finish(self):
        for _ in self.buckets[:-1]:
            self.send()
        more = self.last * (self.factor("last") - 1)
        self.module.embed.weight.grad.index_add_(0, self.tokens, more)
        self.send()

    def synchronize(self):
        if not self.sent:
            self.finish()
        super().synchronize()
