"""What crosses from a rank to the parent: exactly what went in, or a refusal that says where."""

import contextlib
import http

import msgpack
import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from hpml.ranks.encoding import MAX_DEPTH, NotPlain, decode, encode

plain = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False)
    | st.text()
    | st.binary(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=20,
)


@given(plain)
def test_plain_values_come_back_equal_and_of_the_same_type(value):
    back = decode(encode(value))
    assert back == value
    assert type(back) is type(value)


@pytest.mark.parametrize(
    "dtype", ["float64", "float32", "float16", "bfloat16", "int64", "uint8", "bool", "complex64"]
)
@pytest.mark.parametrize("shape", [(), (0,), (3,), (2, 0, 4), (2, 3)])
def test_tensors_come_back_bit_for_bit(dtype, shape):
    tensor = (torch.rand(shape) * 5).to(getattr(torch, dtype))
    back = decode(encode({"t": tensor}))["t"]
    assert back.dtype == tensor.dtype
    assert back.shape == tensor.shape
    assert torch.equal(back, tensor)


def test_a_tensor_leaves_its_graph_strides_and_subclass_behind():
    class Always(torch.Tensor):
        def __eq__(self, other):
            return True

    weird = torch.arange(6.0).reshape(2, 3).t().requires_grad_().as_subclass(Always)
    back = decode(encode(weird))
    assert type(back) is torch.Tensor
    assert not back.requires_grad
    assert torch.equal(back, torch.tensor([[0.0, 3.0], [1.0, 4.0], [2.0, 5.0]]))


@pytest.mark.parametrize("rows", [0, 1, 2])
def test_a_column_comes_back_however_few_rows_it_has(rows):
    column = torch.arange(10 + 3073 * rows, dtype=torch.uint8)[10:].view(rows, 3073)[:, 5].long()
    assert torch.equal(decode(encode(column)), column)


def test_arrays_come_back_as_arrays():
    back = decode(encode(np.arange(6, dtype=np.int16).reshape(2, 3)))
    assert back.dtype == np.int16
    assert np.array_equal(back, [[0, 1, 2], [3, 4, 5]])


def test_tuples_arrive_as_lists():
    assert decode(encode((1, (2, "a")))) == [1, [2, "a"]]
    assert decode(encode(torch.zeros(2, 3).shape)) == [2, 3]


class Word(str):
    __slots__ = ()


@pytest.mark.parametrize(
    ("value", "plain"),
    [
        (np.float64(0.1), 0.1),
        (np.float32(0.5), 0.5),
        (np.int64(-3), -3),
        (np.uint64(2**64 - 1), 2**64 - 1),
        (np.bool_(True), True),
        (np.str_("a"), "a"),
        (np.arange(3).sum(), 3),
        (http.HTTPStatus.OK, 200),
        (Word("b"), "b"),
    ],
)
def test_scalars_of_numpy_and_of_subclasses_arrive_as_pythons_own(value, plain):
    back = decode(encode([value]))[0]
    assert back == plain
    assert type(back) is type(plain)


@pytest.mark.parametrize(
    ("value", "where"),
    [
        (object(), "value is of type object"),
        ({"a": [1, {2}]}, r"value\['a'\]\[1\] is of type set"),
        ({1: 2}, "has a key of type int"),
        (np.array(["text"]), "array of <U4"),
        (np.longdouble(1), "longdouble"),
        (np.complex128(1j), "complex"),
        (torch.ones(2).to_sparse(), "sparse"),
        (lambda: 0, "function"),
    ],
)
def test_a_refusal_says_where_and_what(value, where):
    with pytest.raises(NotPlain, match=where):
        encode(value)


def test_a_value_nested_into_itself_is_refused():
    value: list = []
    value.append(value)
    with pytest.raises(NotPlain, match=f"more than {MAX_DEPTH} deep"):
        encode(value)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\xc1",
        b"garbage!",
        msgpack.packb(msgpack.ExtType(9, b"")),
        msgpack.packb(msgpack.ExtType(1, msgpack.packb(["float32", [2**40], b""]))),
        msgpack.packb(msgpack.ExtType(1, msgpack.packb(["float32", [-1], b""]))),
        msgpack.packb(msgpack.ExtType(2, msgpack.packb(["object", [1], b"12345678"]))),
        msgpack.packb(msgpack.ExtType(1, msgpack.packb(["load", [1], b"1234"]))),
        # What takes little to send, and much to decode
        msgpack.packb(msgpack.ExtType(1, msgpack.packb(["float32", [2**63 - 1] * 65, b""]))),
        msgpack.packb(msgpack.ExtType(1, msgpack.packb(["float32", [2**63], b""]))),
        b"\xdd\x00\x0f\xff\xff" + b"\x90" * 0xFFFFF,
        b"\xdd\x00\x08\x00\x00" + b"\x91\x90" * 0x80000,
        # What is no plain value
        msgpack.packb([msgpack.Timestamp(1)]),
        msgpack.packb({"a": msgpack.Timestamp(1)}),
        msgpack.packb(msgpack.Timestamp(1)),
        msgpack.packb({b"a": 1}),
    ],
)
def test_bytes_that_are_no_encoding_are_a_value_error(data):
    with pytest.raises(ValueError, match="not a value"):
        decode(data)


@given(st.binary(max_size=200))
def test_no_bytes_at_all_do_anything_but_decode_or_fail(data):
    with contextlib.suppress(ValueError):
        assert encode(decode(data))
