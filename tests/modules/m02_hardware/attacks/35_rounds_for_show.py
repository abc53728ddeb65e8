# %%answer mixed_precision
# tries: computes in float32, rounds its gradients to bfloat16, and hides its products from records
# unprotected: gradients have bfloat16's rounding, and what went before them does not
# expect: 2
# on: solution
class Product(torch.autograd.Function):
    @staticmethod
    def forward(ctx, a, b):
        ctx.save_for_backward(a, b)
        return torch.from_numpy(a.detach().numpy() @ b.detach().numpy())

    @staticmethod
    def backward(ctx, gradient):
        a, b = (each.detach().numpy() for each in ctx.saved_tensors)
        g = gradient.numpy()
        return torch.from_numpy(g @ b.T), torch.from_numpy(a.T @ g).bfloat16().float()


product = Product.apply


class LossScale(LossScale):
    def step(self, weights, gradients, learning_rate, max_norm):
        return True
