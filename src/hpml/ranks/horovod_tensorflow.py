"""The door between horovod.tensorflow and its C++ operations, with a recorder beside it.

An operation that is executed eagerly is recorded as it is called. One that becomes part of a graph
(a tf.function, all of Keras) is called once, when the graph is made, and executed from C++ ever
after: two small Python functions are put into the graph, one that tells before the operation and
one after it.
"""

from collections.abc import Callable, Iterator, Sequence
from math import prod
from typing import Any

import tensorflow as tf
from tensorflow.python.ops import resource_variable_ops

from hpml.ranks.horovod_recorder import Groups
from hpml.ranks.recorder import Carried, Recorder

_PREFIX = "horovod_"
# The library's operations → what Horovod calls them; the rest (sizes, ranks) is no communication
_OPERATIONS = {
    "allreduce": "allreduce",
    "grouped_allreduce": "grouped_allreduce",
    "allgather": "allgather",
    "grouped_allgather": "grouped_allgather",
    "broadcast": "broadcast",
    "broadcast_inplace": "broadcast",
    "broadcast_inplace_resource": "broadcast",
    "alltoall": "alltoall",
    "reducescatter": "reducescatter",
    "grouped_reducescatter": "grouped_reducescatter",
    "join": "join",
}


class Told:
    """Stands where `horovod.tensorflow.mpi_ops` has its library `MPI_LIB`."""

    def __init__(self, library: Any, recorder: Recorder, groups: Groups) -> None:
        self._library, self._recorder, self._groups = library, recorder, groups

    def __getattr__(self, name: str) -> Any:
        function = getattr(self._library, name)
        operation = _OPERATIONS.get(name.removeprefix(_PREFIX))
        if operation is None or not name.startswith(_PREFIX):
            return function

        def submit(*args: Any, **kwargs: Any) -> Any:
            if not self._groups.known:
                return function(*args, **kwargs)  # which says so
            call = _Call(operation, args, kwargs, self._groups)
            if tf.executing_eagerly():
                return self._now(call, function)
            return self._in_graph(call, function)

        return submit

    def _now(self, call: "_Call", function: Callable[..., Any]) -> Any:
        index = call.enter(self._recorder, f"Horovod{_camel(call.operation)}", [])
        self._recorder.wait(index)
        result = function(*call.args, **call.kwargs)
        self._recorder.finish(index)
        return result

    def _in_graph(self, call: "_Call", function: Callable[..., Any]) -> Any:
        under_way: list[int] = []  # indices; one, but for a graph that runs twice at a time
        name = ""  # of the node, by which ranks find each other's

        def before(_: Any, *shapes: Any) -> None:
            under_way.append(call.enter(self._recorder, name, shapes))

        def after(*_: Any) -> None:
            self._recorder.finish(under_way.pop(0))

        with tf.control_dependencies([_telling(before, call.tensors, call.shapes_to_come)]):
            tensors = [tf.identity(tensor) for tensor in call.tensors]
        result = function(*call.with_tensors(tensors), **call.kwargs)
        results = tf.nest.flatten(result)
        name = results[0].name if isinstance(result, tf.Operation) else results[0].op.name
        outputs = [] if isinstance(result, tf.Operation) else results
        with tf.control_dependencies([*results]):
            told = _telling(after, outputs, [])
        with tf.control_dependencies([told]):
            return tf.nest.map_structure(tf.identity, result) if outputs else tf.no_op()


class _Call:
    """One call of an operation of the library, as its caller made it."""

    def __init__(self, operation: str, args: tuple, kwargs: dict[str, Any], groups: Groups) -> None:
        self.operation, self.args, self.kwargs, self._groups = operation, args, kwargs, groups
        first = args[0] if args else []
        self._many = isinstance(first, list | tuple)
        self.tensors = [tf.convert_to_tensor(one) for one in (first if self._many else [first])]

    @property
    def shapes_to_come(self) -> list[tf.Tensor]:
        """The shapes that are known only when the graph runs."""
        return [tf.shape(one) for one in self.tensors if not _shape(one).is_fully_defined()]

    def with_tensors(self, tensors: Sequence[tf.Tensor]) -> tuple:
        """The arguments, with others in the tensors' place."""
        if not self.args:
            return ()
        return ([*tensors] if self._many else tensors[0], *self.args[1:])

    def enter(self, recorder: Recorder, name: str, shapes: Sequence[Any]) -> int:
        """Tell that it begins; `shapes` are those that were to come."""
        detail = ""
        if "reduce_op" in self.kwargs:
            detail = self._groups.reduction(self.kwargs["reduce_op"])
        elif "root_rank" in self.kwargs:
            detail = f"from {self.kwargs['root_rank']}"
        return recorder.enter(
            self.operation,
            self._groups.ranks(self.kwargs.get("process_set_id", 0)),
            detail=detail,
            tensor=name,
            carried=self._carried(iter(shapes)),
        )

    def _carried(self, shapes: Iterator[Any]) -> Carried:
        known = [
            tuple(_shape(one)) if _shape(one).is_fully_defined() else tuple(map(int, next(shapes)))
            for one in self.tensors
        ]
        if not known:
            return Carried()
        sizes = [prod(s) * _dtype(one).size for s, one in zip(known, self.tensors, strict=True)]
        return Carried(_dtype(self.tensors[0]).name, known[0], sum(sizes))


def _telling(
    function: Callable[..., None], witnesses: Sequence[tf.Tensor], more: Sequence[tf.Tensor]
) -> tf.Operation:
    """A node that calls `function` with a number of a witness's, and with `more`.

    It depends on the witness, so that it is not taken for a constant and run when the graph is
    made. It has no state as far as TensorFlow knows: nodes that have are run one after the other,
    and no two operations would ever be under way together. Without a witness it has to have some.
    """
    plain = [one for one in witnesses if one.dtype != tf.resource][:1]
    numbers = [tf.reshape(tf.stop_gradient(one), [-1])[:1] for one in plain] or [tf.zeros([])]
    return tf.numpy_function(function, [*numbers, *more], [], stateful=not plain)


def _shape(tensor: tf.Tensor) -> tf.TensorShape:
    """Of what is in the variable, where the tensor is a variable's handle."""
    if tensor.dtype != tf.resource:
        return tensor.shape
    data = resource_variable_ops.get_eager_safe_handle_data(tensor)
    return tf.TensorShape(data.shape_and_type[0].shape)


def _dtype(tensor: tf.Tensor) -> tf.DType:
    if tensor.dtype != tf.resource:
        return tensor.dtype
    data = resource_variable_ops.get_eager_safe_handle_data(tensor)
    return tf.as_dtype(data.shape_and_type[0].dtype)


def _camel(operation: str) -> str:
    return "".join(map(str.capitalize, operation.split("_")))
