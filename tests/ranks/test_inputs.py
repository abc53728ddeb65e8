"""Inputs arrive as they were."""

import pytest
import torch

from hpml.ranks import inputs

DTYPES = [torch.float64, torch.float32, torch.bfloat16, torch.int64, torch.bool, torch.complex64]


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("shape", [(), (0,), (3, 0, 2), (5,), (2, 3, 4)], ids=str)
def test_a_tensor_keeps_its_values_dtype_and_shape(dtype, shape):
    tensor = torch.randint(0, 2, shape).to(dtype)
    got = inputs.load(inputs.dump({"x": [tensor, 1]}))["x"][0]
    assert (got.dtype, got.shape) == (dtype, tensor.shape)
    assert torch.equal(got, tensor)
    got.zero_()  # its own memory, that can be written to


def test_a_view_and_what_torch_has_to_pickle_itself_arrive_too():
    rows = torch.arange(6.0).reshape(2, 3)
    trained = torch.nn.Parameter(rows.clone())
    view, column, parameter, needs = inputs.load(
        inputs.dump([rows.t()[1:], rows[:1, 2], trained, rows.clone().requires_grad_()])
    )
    assert torch.equal(view, rows.t()[1:])
    assert torch.equal(column, torch.tensor([2.0]))
    assert isinstance(parameter, torch.nn.Parameter)
    assert torch.equal(parameter, trained)
    assert needs.requires_grad
