"""Records horovod.tensorflow's calls of its C++ operations.

An operation that is executed eagerly is recorded as it is called. One that becomes part of a graph
(a tf.function, all of Keras) is called once, when the graph is made, and executed from C++ ever
after: two small Python functions are put into the graph, one that records before the
operation and one after it.
"""

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

import tensorflow as tf
from tensorflow.python.ops import resource_variable_ops

from hpml.ranks.rank.process_sets import ProcessSets
from hpml.ranks.rank.recorder import Recorder
from hpml.ranks.rank.sizes import Carried

_PREFIX = "horovod_"
# The library's operations → what Horovod calls them; the rest (sizes, ranks) does not communicate
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


class RecordingLibrary:
    """Stands in for `MPI_LIB`, the library of `horovod.tensorflow.mpi_ops`."""

    def __init__(self, library: Any, recorder: Recorder, process_sets: ProcessSets) -> None:
        self._library, self._recorder, self._process_sets = library, recorder, process_sets

    def __getattr__(self, name: str) -> Any:
        function = getattr(self._library, name)
        operation = _OPERATIONS.get(name.removeprefix(_PREFIX))
        if operation is None or not name.startswith(_PREFIX):
            return function

        def submit(*args: Any, **kwargs: Any) -> Any:
            if not self._process_sets.known:
                return function(*args, **kwargs)  # which raises
            call = _Call(operation, args, kwargs, self._process_sets)
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
        name = ""  # of the node, by which ranks match their calls

        def before(*shapes: Any) -> None:
            under_way.append(call.enter(self._recorder, name, shapes))

        def after(*_: Any) -> None:
            self._recorder.finish(under_way.pop(0))

        tensors, told = _telling(before, call.tensors)
        with tf.control_dependencies(told):
            result = function(*call.with_tensors(tensors), **call.kwargs)
        if isinstance(result, tf.Operation):
            name = result.name
            with tf.control_dependencies([result]):
                _, told = _telling(after, [])
            with tf.control_dependencies(told):
                return tf.no_op()
        name = tf.nest.flatten(result)[0].op.name
        outputs, _ = _telling(after, tf.nest.flatten(result))
        return tf.nest.pack_sequence_as(result, outputs)


class _Call:
    """One call of an operation of the library, as its caller made it."""

    def __init__(
        self, operation: str, args: tuple, kwargs: dict[str, Any], process_sets: ProcessSets
    ) -> None:
        self.operation, self.args, self.kwargs = operation, args, kwargs
        self._process_sets = process_sets
        first = args[0] if args else []
        self._many = isinstance(first, list | tuple)
        self.tensors = [tf.convert_to_tensor(one) for one in (first if self._many else [first])]

    def with_tensors(self, tensors: Sequence[tf.Tensor]) -> tuple:
        """The arguments, with `tensors` in place of its own."""
        if not self.args:
            return ()
        return ([*tensors] if self._many else tensors[0], *self.args[1:])

    def enter(self, recorder: Recorder, name: str, shapes: Sequence[Any]) -> int:
        """Record that it begins; `shapes` are the tensors', where they are known only now."""
        reduction = ""
        if "reduce_op" in self.kwargs:
            reduction = self._process_sets.reduction(self.kwargs["reduce_op"])
        return recorder.enter(
            self.operation,
            self._process_sets.ranks(self.kwargs.get("process_set_id", 0)),
            reduction=reduction,
            root=self.kwargs.get("root_rank"),
            tensor=name,
            carried=self._carried(shapes),
        )

    def _carried(self, shapes: Sequence[Any]) -> Carried:
        if not self.tensors:
            return Carried()
        known = [tuple(map(int, s)) for s in shapes or map(_shape, self.tensors)]
        sizes = [prod(s) * _dtype(one).size for s, one in zip(known, self.tensors, strict=True)]
        return Carried(_dtype(self.tensors[0]).name, known[0], sum(sizes))


def _telling(
    function: Callable[..., None], tensors: Sequence[tf.Tensor]
) -> tuple[list[tf.Tensor], list[tf.Operation]]:
    """A node that calls `function` with the shapes of `tensors`; returns the tensors to use next.

    What uses them runs after the node: the node returns the first tensor's shape, and that tensor
    is reshaped to it, without a copy. The node depends on one element of it, or TensorFlow would
    take it for a constant and run it when the graph is made. It is declared stateless: stateful
    nodes run one after the other, and no two operations would ever be under way together.

    Variables have no shapes to give. There, and without tensors, the node is stateful, and is
    returned too, as a control dependency.
    """
    if not tensors or tensors[0].dtype == tf.resource:
        return [*tensors], [tf.numpy_function(lambda: function(), [], [])]

    def tell(_: Any, *shapes: Any) -> Any:
        function(*shapes)
        return shapes[0]

    first, *others = tensors
    number = tf.reshape(tf.stop_gradient(first), [-1])[:1]
    shape = tf.numpy_function(tell, [number, *map(tf.shape, tensors)], tf.int32, stateful=False)
    passed = tf.reshape(first, shape)
    passed.set_shape(first.shape)
    return [passed, *others], []


def _shape(tensor: tf.Tensor) -> tf.TensorShape:
    """The tensor's shape, or its variable's where it is a variable's handle."""
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
