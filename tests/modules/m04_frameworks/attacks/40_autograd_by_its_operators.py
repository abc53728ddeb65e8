# %%answer autodiff
# tries: torch.autograd's walk as an operator, in TorchScript, and by the engine itself
# unprotected: torch's gradients are the expected ones
# on: 40_autograd_by_another_name
def by_engine(result, tensors):
    torch.autograd.Variable._execution_engine.run_backward(
        (result,), (torch.ones(()),), False, False, (), allow_unreachable=True, accumulate_grad=True
    )


def by_script(result, tensors):
    torch.jit.CompilationUnit("def walk(x):\n    x.backward()\n").walk(result)


def by_operator(result, tensors):
    leaves = [x for x in tensors.values() if x.is_leaf and x.requires_grad]
    torch.ops.aten._backward(result, leaves)


def by_another_operator(result, tensors):
    torch.ops.aten.backward(result)


WAYS = by_engine, by_script, by_operator, by_another_operator
