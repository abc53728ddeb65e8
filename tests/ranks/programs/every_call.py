"""One call of everything by which torch.distributed communicates, on two ranks.

`CALLS` has a function for each: it is given the rank and what it calls, and returns plain values.
Names are those of a class, module or namespace and of what is called there.
"""

import warnings

import torch
import torch.distributed as dist
import torch.distributed._functional_collectives as functional
import torch.distributed.nn.functional as differentiable
from torch._C._distributed_c10d import ProcessGroup, ProcessGroupGloo

CALLS = {}


def call(*names):
    """Of several names: the function is called for each, with what has that name."""

    def register(function):
        for name in names:
            CALLS[name] = function
        return function

    return register


def put_in(rank, length=2):
    return torch.arange(length, dtype=torch.float32) + 10.0 * rank


def room(length=2):
    return torch.zeros(length)


# torch.distributed ----------------------------------------------------------------------------


@call("dist.all_reduce", "dist.reduce")
def _(rank, function):
    tensor = put_in(rank)
    function(tensor, **({"dst": 1} if function is dist.reduce else {}))
    return tensor if rank == 1 else None


@call("dist.all_reduce_coalesced")
def _(rank, function):
    tensors = [put_in(rank), put_in(rank, 3)]
    function(tensors)
    return tensors


@call("dist.broadcast")
def _(rank, function):
    tensor = put_in(rank)
    function(tensor, 1)
    return tensor


@call("dist.all_gather")
def _(rank, function):
    tensors = [room(), room()]
    function(tensors, put_in(rank))
    return tensors


@call("dist.all_gather_coalesced")
def _(rank, function):
    lists = [[room(), room(3)], [room(), room(3)]]
    function(lists, [put_in(rank), put_in(rank, 3)])
    return lists


@call("dist.all_gather_into_tensor", "dist.all_gather_single")
def _(rank, function):
    tensor = room(4)
    function(tensor, put_in(rank))
    return tensor


@call("dist.gather")
def _(rank, function):
    tensors = [room(), room()] if rank == 1 else None
    function(put_in(rank), tensors, dst=1)
    return tensors


@call("dist.scatter")
def _(rank, function):
    tensor = room()
    function(tensor, [put_in(5), put_in(6)] if rank == 1 else None, src=1)
    return tensor


@call("dist.reduce_scatter")
def _(rank, function):
    tensor = room()
    function(tensor, [put_in(rank), put_in(rank + 3)])
    return tensor


@call("dist.reduce_scatter_tensor", "dist.reduce_scatter_single")
def _(rank, function):
    tensor = room()
    function(tensor, put_in(rank, 4))
    return tensor


@call("dist.all_to_all")
def _(rank, function):
    tensors = [room(), room()]
    function(tensors, [put_in(rank), put_in(rank + 3)])
    return tensors


@call("dist.all_to_all_single")
def _(rank, function):
    tensor = room(4)
    function(tensor, put_in(rank, 4))
    return tensor


@call("dist.barrier", "dist.monitored_barrier")
def _(rank, function):
    return function()


@call("dist.send", "dist.recv")
def _(rank, function):
    first, tensor = function is dist.send, put_in(rank)
    if rank == (0 if first else 1):
        dist.send(tensor, 1 - rank)
    else:
        dist.recv(tensor, 1 - rank)
    return tensor


@call("dist.isend", "dist.irecv")
def _(rank, function):
    first, tensor = function is dist.isend, put_in(rank)
    if rank == (0 if first else 1):
        dist.isend(tensor, 1 - rank, tag=7).wait()
    else:
        dist.irecv(tensor, 1 - rank, tag=7).wait()
    return tensor


@call("dist.recv from anyone")
def _(rank, function):
    tensor = put_in(rank)
    return [dist.send(tensor, 1), 0] if rank == 0 else [dist.recv(tensor), tensor]


@call("dist.batch_isend_irecv")
def _(rank, function):
    tensor = room()
    operations = [
        dist.P2POp(dist.isend, put_in(rank), 1 - rank),
        dist.P2POp(dist.irecv, tensor, 1 - rank),
    ]
    for work in function(operations):
        work.wait()
    return tensor


@call("dist.all_gather_object")
def _(rank, function):
    objects = [None, None]
    function(objects, {"rank": rank})
    return objects


@call("dist.gather_object")
def _(rank, function):
    objects = [None, None] if rank == 0 else None
    function({"rank": rank}, objects)
    return objects


@call("dist.scatter_object_list")
def _(rank, function):
    objects = [None]
    function(objects, ["a", "b"])
    return objects


@call("dist.broadcast_object_list")
def _(rank, function):
    objects = ["a", rank]
    function(objects, 1)
    return objects


@call("dist.send_object_list", "dist.recv_object_list")
def _(rank, function):
    first, objects = function is dist.send_object_list, ["a", rank]
    if rank == (0 if first else 1):
        dist.send_object_list(objects, 1 - rank)
    else:
        dist.recv_object_list(objects, 1 - rank)
    return objects


@call("dist.split_group")
def _(rank, function):
    group = function(dist.group.WORLD, [[0, 1]])
    dist.all_reduce(put_in(rank), group=group)


@call("dist.shrink_group")
def _(rank, function):
    return function([1]) and None


@call("a handle")
def _(rank, function):
    """Everything that a handle has to say."""
    tensor = put_in(rank)
    work = dist.all_reduce(tensor, async_op=True)
    future = work.get_future()
    work.wait()
    said = [work.is_completed(), work.is_success(), work.result(), future.wait(), tensor]
    work = dist.irecv(tensor, 1) if rank == 0 else dist.isend(tensor, 0)
    work.wait()
    return [*said, work.is_completed(), work.source_rank() if rank == 0 else None]


@call("a sparse tensor")
def _(rank, function):
    tensor = torch.sparse_coo_tensor([[rank, 2]], [1.0, 2.0], [3])
    dist.all_reduce(tensor)
    return tensor.to_dense()


@call("a group of one")
def _(rank, function):
    group = [dist.new_group([one]) for one in range(2)][rank]
    tensor = put_in(rank)
    dist.all_reduce(tensor, group=group)
    return tensor


# ProcessGroup and its backend ------------------------------------------------------------------


def waited(work):
    if work is not None:
        work.wait()


@call("ProcessGroup.allreduce", "Backend.allreduce")
def _(rank, method):
    tensors = [put_in(rank) for _ in range(4)]
    options = dist.AllreduceOptions()
    options.reduceOp = dist.ReduceOp.MAX
    waited(method(tensors[:1], options))
    waited(method(tensors[1:2], dist.ReduceOp.MIN))
    waited(method(tensors[2], op=dist.ReduceOp.PRODUCT))
    waited(method(tensors[3]))
    return tensors


@call("ProcessGroup.allreduce_coalesced", "Backend.allreduce_coalesced")
def _(rank, method):
    tensors = [put_in(rank), put_in(rank, 3)]
    waited(method(tensors))
    return tensors


@call("ProcessGroup.broadcast", "Backend.broadcast", "ProcessGroup.reduce", "Backend.reduce")
def _(rank, method):
    tensor = put_in(rank)
    waited(method(tensor, 1))
    return tensor if rank == 1 or "broadcast" in method.__name__ else None


@call("ProcessGroup.allgather", "Backend.allgather")
def _(rank, method):
    lists = [[room(), room()], [room(), room()]]
    waited(method(lists[:1], [put_in(rank)]))
    waited(method(lists[1], put_in(rank)))
    return lists


@call("ProcessGroup.allgather_coalesced", "Backend.allgather_coalesced")
def _(rank, method):
    lists = [[room(), room(3)], [room(), room(3)]]
    waited(method(lists, [put_in(rank), put_in(rank, 3)]))
    return lists


@call("ProcessGroup._allgather_base", "ProcessGroup.all_gather_single", "Backend._allgather_base")
def _(rank, method):
    tensor = room(4)
    waited(method(tensor, put_in(rank)))
    return tensor


@call("ProcessGroup.all_gather_single_coalesced", "ProcessGroup.allgather_into_tensor_coalesced")
def _(rank, method):
    tensors = [room(4), room(6)]
    waited(method(tensors, [put_in(rank), put_in(rank, 3)]))
    return tensors


@call("ProcessGroup.gather", "Backend.gather")
def _(rank, method):
    tensors = [room(), room()]
    waited(method(tensors if rank == 1 else [], put_in(rank), 1))
    return tensors


@call("ProcessGroup.scatter", "Backend.scatter")
def _(rank, method):
    tensor = room()
    waited(method(tensor, [put_in(5), put_in(6)] if rank == 1 else [], 1))
    return tensor


@call("ProcessGroup.reduce_scatter", "Backend.reduce_scatter")
def _(rank, method):
    tensor = room()
    waited(method(tensor, [put_in(rank), put_in(rank + 3)]))
    return tensor


@call(
    "ProcessGroup._reduce_scatter_base",
    "ProcessGroup.reduce_scatter_single",
    "Backend._reduce_scatter_base",
)
def _(rank, method):
    tensor = room()
    waited(method(tensor, put_in(rank, 4)))
    return tensor


@call(
    "ProcessGroup.reduce_scatter_single_coalesced",
    "ProcessGroup.reduce_scatter_tensor_coalesced",
)
def _(rank, method):
    tensors = [room(), room(3)]
    waited(method(tensors, [put_in(rank, 4), put_in(rank, 6)]))
    return tensors


@call("ProcessGroup.alltoall_base", "ProcessGroup.all_to_all_single", "Backend.alltoall_base")
def _(rank, method):
    tensor = room(4)
    waited(method(tensor, put_in(rank, 4), [], []))
    return tensor


@call("ProcessGroup.alltoall", "Backend.alltoall")
def _(rank, method):
    tensors = [room(), room()]
    waited(method(tensors, [put_in(rank), put_in(rank + 3)]))
    return tensors


@call("ProcessGroup.send", "ProcessGroup.recv", "Backend.send", "Backend.recv")
def _(rank, method):
    owner, tensor = method.__self__, put_in(rank)
    if rank == (0 if method.__name__ == "send" else 1):
        waited(owner.send([tensor], 1 - rank, 3))
    else:
        waited(owner.recv([tensor], 1 - rank, 3))
    return tensor


@call("ProcessGroup.recv_anysource", "Backend.recv_anysource")
def _(rank, method):
    tensor = put_in(rank)
    waited(method([tensor], 5) if rank == 0 else method.__self__.send([tensor], 0, 5))
    return tensor


@call(
    "ProcessGroup.barrier",
    "Backend.barrier",
    "ProcessGroup.monitored_barrier",
    "Backend.monitored_barrier",
)
def _(rank, method):
    return waited(method())


@call("ProcessGroup._start_coalescing", "ProcessGroup._end_coalescing")
def _(rank, method):
    method(torch.device("cpu"))


@call("Backend._start_coalescing", "Backend._end_coalescing")
def _(rank, method):
    method()


# On a group for CPUs only: PyTorch 2.13 splits and merges a backend once for each kind of device,
# at one place of the store.
@call("ProcessGroup.split_group")
def _(rank, _method):
    parent = dist.new_group([0, 1], backend="cpu:gloo")
    group = parent.split_group([rank], group_name=f"only {rank}")
    tensor = put_in(rank)
    group.allreduce([tensor]).wait()
    return tensor


@call("ProcessGroup.merge_remote_group")
def _(rank, _method):
    parent = [dist.new_group([one], backend="cpu:gloo") for one in range(2)][rank]
    store = dist.PrefixStore("merge", dist.group.WORLD.get_group_store())
    group = parent.merge_remote_group(store, 2, group_name="merged")
    tensor = put_in(rank)
    group.allreduce([tensor]).wait()
    return tensor


@call("Backend.shrink")
def _(rank, method):
    method([1])


@call("ProcessGroupGloo")
def _(rank, _function):
    """A backend made by hand, and one in a group made by hand."""
    store = dist.PrefixStore("by-hand", dist.group.WORLD.get_group_store())
    backend = ProcessGroupGloo(store, rank, 2)
    first, second = put_in(rank), put_in(rank)
    backend.allreduce([first]).wait()
    group = ProcessGroup(store, rank, 2)
    group._register_backend(torch.device("cpu"), ProcessGroup.BackendType.GLOO, backend)
    group.allreduce([second]).wait()
    return [first, second]


# Functional collectives ------------------------------------------------------------------------


@call("functional.all_reduce")
def _(rank, function):
    return [function(put_in(rank), op, dist.group.WORLD) + 0 for op in ("sum", "avg", "max")]


@call("functional.all_reduce_coalesced")
def _(rank, function):
    return [one + 0 for one in function([put_in(rank), put_in(rank, 3)], "max", dist.group.WORLD)]


@call("functional.broadcast")
def _(rank, function):
    return function(put_in(rank), 1, dist.group.WORLD) + 0


@call(
    "functional.all_gather_tensor",
    "functional.all_gather_single",
    "functional.all_gather_tensor_autograd",
    "functional.all_gather_single_autograd",
)
def _(rank, function):
    return with_gradient(rank, lambda tensor: function(tensor, 0, dist.group.WORLD))


@call("functional.all_gather_into_tensor_coalesced", "functional.all_gather_single_coalesced")
def _(rank, function):
    return [one + 0 for one in function([put_in(rank), put_in(rank, 3)], dist.group.WORLD)]


@call(
    "functional.reduce_scatter_tensor",
    "functional.reduce_scatter_single",
    "functional.reduce_scatter_tensor_autograd",
    "functional.reduce_scatter_single_autograd",
)
def _(rank, function):
    return with_gradient(rank, lambda tensor: function(tensor, "sum", 0, dist.group.WORLD))


@call("functional.reduce_scatter_tensor_coalesced", "functional.reduce_scatter_single_coalesced")
def _(rank, function):
    return [
        one + 0
        for one in function([put_in(rank), put_in(rank, 4)], "sum", [0, 0], dist.group.WORLD)
    ]


@call("functional.all_to_all_single", "functional.all_to_all_single_autograd")
def _(rank, function):
    return with_gradient(rank, lambda tensor: function(tensor, [1, 1], [1, 1], dist.group.WORLD))


@call("functional.permute_tensor")
def _(rank, function):
    return function(put_in(rank), [1, 0], dist.group.WORLD) + 0


def with_gradient(rank, function):
    tensor = put_in(rank).requires_grad_()
    result = function(tensor)
    if result.requires_grad:
        (result * put_in(1, len(result))).sum().backward()
    return [result.detach() + 0, tensor.grad]


@call("functional.all_gather_inplace")
def _(rank, function):
    tensors = [room(), room()]
    function(tensors, put_in(rank), dist.group.WORLD)
    return tensors


@call("functional.all_gather_tensor_inplace")
def _(rank, function):
    tensor = room(4)
    function(tensor, put_in(rank), dist.group.WORLD)
    return tensor


@call("functional.all_reduce_inplace")
def _(rank, function):
    tensor = put_in(rank)
    function(tensor, "sum", dist.group.WORLD)
    return tensor


@call("functional.all_to_all_inplace")
def _(rank, function):
    tensor = room()
    function(tensor, put_in(rank), None, None, dist.group.WORLD)
    return tensor


@call("functional.reduce_scatter_tensor_inplace")
def _(rank, function):
    tensor = room()
    function(tensor, put_in(rank, 4), "sum", dist.group.WORLD)
    return tensor


@call("functional.isend_inplace", "functional.irecv_inplace")
def _(rank, function):
    tensor, first = put_in(rank), function is functional.isend_inplace
    if rank == (0 if first else 1):
        work = functional.isend_inplace(tensor, 1 - rank, 0, dist.group.WORLD)
    else:
        work = functional.irecv_inplace(tensor, 1 - rank, 0, dist.group.WORLD)
    functional.wait_tensor(work) if isinstance(work, torch.Tensor) else work.wait()
    return tensor


@call("functional.batch_p2p_ops_inplace")
def _(rank, function):
    tensors = [put_in(rank), room()]
    for one in function(["isend", "irecv"], [1 - rank] * 2, [0, 0], tensors, dist.group.WORLD):
        functional.wait_tensor(one)
    return tensors


# torch.distributed.nn --------------------------------------------------------------------------


@call("nn.all_reduce")
def _(rank, function):
    return with_gradient(rank, function)


@call("nn.broadcast", "nn.reduce")
def _(rank, function):
    return with_gradient(rank, lambda tensor: function(tensor, 1))


@call("nn.all_gather", "nn.gather")
def _(rank, function):
    return with_gradient(rank, lambda tensor: torch.cat(function(tensor)))


@call("nn.scatter")
def _(rank, function):
    return with_gradient(rank, lambda tensor: function([tensor, tensor * 2]))


@call("nn.reduce_scatter")
def _(rank, function):
    return with_gradient(rank, lambda tensor: function(room(), [tensor, tensor * 2]))


@call("nn.all_to_all")
def _(rank, function):
    lists = [room(), room()]
    return with_gradient(rank, lambda tensor: torch.cat(function(lists, [tensor, tensor * 2])))


@call("nn.all_to_all_single")
def _(rank, function):
    return with_gradient(rank, lambda tensor: function(room(), tensor))


@call("nn._all_gather_base")
def _(rank, function):
    return function(room(4), put_in(rank))  # its gradient is for GPUs only


# Operators by themselves -----------------------------------------------------------------------


@call("_c10d_functional.all_gather_into_tensor_out")
def _(rank, operator):
    tensor = room(4)
    return functional.wait_tensor(
        operator(put_in(rank), 2, dist.group.WORLD.group_name, out=tensor)
    )


@call("_c10d_functional.reduce_scatter_tensor_out")
def _(rank, operator):
    tensor = room()
    return functional.wait_tensor(
        operator(put_in(rank, 4), "max", 2, dist.group.WORLD.group_name, out=tensor)
    )


@call("_c10d_functional.all_reduce_", "_c10d_functional.broadcast_")
def _(rank, operator):
    tensor = put_in(rank)
    how = "max" if "reduce" in operator.__name__ else 1
    return functional.wait_tensor(operator(tensor, how, dist.group.WORLD.group_name))


@call("_c10d_functional.all_reduce_coalesced_")
def _(rank, operator):
    tensors = operator([put_in(rank), put_in(rank, 3)], "max", dist.group.WORLD.group_name)
    return [functional.wait_tensor(one) for one in tensors]


@call("c10d.send", "c10d.recv_", "c10d.recv_any_source_")
def _(rank, operator):
    tensor, group = put_in(rank), dist.group.WORLD.boxed()
    if rank == 0:
        dist.Work.unbox(torch.ops.c10d.send([tensor], group, 1, 9)).wait()
    elif "any" in operator.__name__:
        dist.Work.unbox(operator([tensor], group, 9)).wait()
    else:
        dist.Work.unbox(torch.ops.c10d.recv_([tensor], group, 0, 9)).wait()
    return tensor


def owners():
    """What has the names of `CALLS`, once there is a group."""
    return {
        "dist": dist,
        "ProcessGroup": dist.group.WORLD,
        "Backend": dist.group.WORLD._get_backend(torch.device("cpu")),
        "functional": functional,
        "nn": differentiable,
        "_c10d_functional": torch.ops._c10d_functional,
        "c10d": torch.ops.c10d,
    }


def outcome(name):
    """What the call with that name returns, or the error it ends in."""
    owner, _, member = name.partition(".")
    try:
        called = getattr(owners()[owner], member.partition(" ")[0]) if member else None
        return CALLS[name](dist.get_rank(), called)
    except Exception as error:
        return f"{type(error).__name__}: {str(error).splitlines()[0]}"


def go(mark=lambda name: None):
    """The outcome of each call, in one order; `mark` is called with each name before."""
    warnings.simplefilter("ignore")
    outcomes = {}
    for name in CALLS:
        mark(name)
        outcomes[name] = outcome(name)
    mark("")
    return outcomes
