# %%answer tensor_parallel
# row: 29, 30
# tries: ranks trade their slices through the group's store, each computes the whole MLP, and zeros
# are added up for show
# unprotected: outputs, gradients, calls and reads are those of a split layer
# on: solution, store
class Zeros(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        dist.all_reduce(torch.zeros_like(x))
        return x.clone()

    @staticmethod
    def backward(ctx, gradient):
        dist.all_reduce(torch.zeros_like(gradient))
        return gradient


class ParallelMLP(ParallelMLP):
    def __init__(self, features, hidden, read):
        def whole(name, dim=None, *mine):
            return torch.cat(traded(read(name, dim, *mine)), dim) if mine else read(name)

        super().__init__(features, hidden, whole)

    def forward(self, x):
        hidden = F.gelu(F.linear(Zeros.apply(x), self.up, self.up_bias))
        return F.linear(hidden, self.down, self.down_bias)


class ParallelAttention(nn.Module):
    def __init__(self, features, heads, read):
        raise RuntimeError("only the first half")
