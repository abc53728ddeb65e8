"""Whatever communicates in torch.distributed is in the ledger, and behaves as under plain Gloo.

What there is, is looked up in this version of PyTorch: with another one the first tests name what
nobody has looked at yet.
"""

import re
import types

import pytest
import torch
import torch.distributed._functional_collectives as functional
import torch.distributed.distributed_c10d as c10d
import torch.distributed.nn.functional as differentiable
from torch._C._distributed_c10d import Backend, ProcessGroup, ProcessGroupGloo

from hpml.ranks import launch
from hpml.ranks.rank.operations import OPERATIONS

from .plain import PROGRAMS, plain

SOURCE = (PROGRAMS / "every_call.py").read_text()
NAMES = set(re.findall(r'"((?:dist|ProcessGroup|Backend|functional|nn|_?c10d\w*)\.\w+)"', SOURCE))

# What does not communicate, or only as others do that are called here
QUIET = {
    "dist": """destroy_process_group get_backend get_backend_config get_default_backend_for_device
        get_global_rank get_group_rank get_node_local_rank get_pg_count get_process_group_ranks
        get_rank get_world_size init_process_group is_backend_available is_gloo_available
        is_initialized is_mpi_available is_nccl_available is_torchelastic_launched is_ucc_available
        is_xccl_available new_group new_subgroups new_subgroups_by_enumeration record_comm
        supports_complex""",
    "ProcessGroup": """_backend_id _device_types _enable_collectives_timing _get_backend
        _get_backend_name _get_sequence_number_for_group _has_hooks _id _register_backend
        _register_on_completion_hook _set_default_backend _set_group_desc _set_group_name
        _set_sequence_number_for_group _wait_for_pending_works abort bound_device_id boxed
        get_group_store group_desc group_name name rank set_timeout shutdown size unbox
        use_pg_for_symm_mem_rendezvous""",
    "Backend": """_get_backend_name _get_sequence_number_for_group _set_default_timeout
        _set_sequence_number_for_group abort allocate_tensor create_default_device create_device
        eager_connect_single_device mem_allocator memory_stats name options rank resume
        setUsePgForSymmMemRendezvous set_timeout shutdown size supports_coalescing
        supports_shrinking supports_splitting supports_tensor_alloc supports_time_estimate
        suspend""",
    "functional": "allow_inflight_collective_as_graph_input_ctx wait_tensor",
    "nn": "",
    # Called by the functions of `functional`
    "_c10d_functional": """all_gather_into_tensor all_gather_into_tensor_coalesced all_reduce
        all_reduce_coalesced all_to_all_single batch_p2p_ops broadcast irecv isend
        _wrap_tensor_autograd reduce_scatter_tensor reduce_scatter_tensor_coalesced wait_tensor""",
}


def functions(module) -> set[str]:
    """The public functions of a module, without what belongs to their gradients."""
    return {
        name
        for name, value in vars(module).items()
        if isinstance(value, types.FunctionType)
        and value.__module__ == module.__name__
        and not re.search(r"^_|_backward$|_setup_context$", name)
    }


def members(*classes: type) -> set[str]:
    return {
        name
        for one in classes
        for name, value in vars(one).items()
        if not name.startswith(("__", "_pybind11"))
        and not isinstance(value, type | one)
        and name not in getattr(ProcessGroup.BackendType, "__members__", ())
    }


def operators(namespace: str) -> set[str]:
    names = (name.partition("::") for name in torch._C._dispatch_get_all_op_names())
    return {name for space, _, name in names if space == namespace}


OFFERED = {
    "dist": {name for name in c10d.__all__ if type(vars(c10d)[name]) is types.FunctionType},
    "ProcessGroup": members(ProcessGroup),
    "Backend": members(Backend, ProcessGroupGloo) - {"Options", "_Options", "Device"},
    "functional": functions(functional),
    "nn": functions(differentiable),
    "_c10d_functional": operators("_c10d_functional"),
}


@pytest.mark.parametrize("owner", OFFERED)
def test_all_that_this_pytorch_offers_is_called_here_or_known_to_be_quiet(owner):
    called = {name.partition(".")[2] for name in NAMES if name.partition(".")[0] == owner}
    quiet = set(QUIET[owner].split())
    assert not called & quiet
    nobody_looked_at = OFFERED[owner] - called - quiet
    assert not nobody_looked_at
    gone = (called | quiet) - OFFERED[owner] - {"_all_gather_base"}
    assert not gone


def test_every_operator_that_takes_a_process_group_is_in_the_table():
    taking = {
        name
        for name in operators("c10d")
        if "process_group"
        in [a.name for a in getattr(torch.ops.c10d, name).default._schema.arguments]
    }
    assert taking == set(OPERATIONS)


def every_call(**options):
    def drive(program):
        from hpml.ranks import mark

        return program.go(mark)

    evidence = launch(drive, 2, answer=SOURCE, answer_name="every_call", **options)
    assert evidence.diagnosis is None
    return evidence


@pytest.fixture(scope="module")
def launched():
    return every_call()


@pytest.fixture(scope="module")
def without():
    return plain("every_call", 2)


def differences(evidence, without) -> set[str]:
    """The names of the calls that end otherwise on a rank."""
    return {
        name
        for here, there in zip(evidence.values, without, strict=True)
        for name in here.keys() | there.keys()
        if str(here.get(name)) != str(there.get(name))
    }


def test_every_call_gives_what_it_gives_under_plain_gloo(launched, without):
    assert differences(launched, without) == set()


# Raise where a rank has no network of its own, each with a sentence that says so
NOT_WITH_PROXIES = {
    "a sparse tensor",
    "ProcessGroupGloo",
    "ProcessGroup.split_group",
    "ProcessGroup.merge_remote_group",
    "_c10d_functional.all_gather_into_tensor_out",
    "c10d.send",
    "c10d.recv_",
    "c10d.recv_any_source_",
    # These raise without proxies too
    "Backend.shrink",
    *(
        f"{kind}._{what}_coalescing"
        for kind in ("ProcessGroup", "Backend")
        for what in ("start", "end")
    ),
}


def test_nearly_every_call_does_with_proxies_too(without):
    proxied = every_call(proxied=True)
    assert differences(proxied, without) == NOT_WITH_PROXIES


def test_every_call_leaves_a_record_on_both_ranks(launched):
    carried = dict.fromkeys(launched.values[0], 0)
    failed = {n for n, o in launched.values[0].items() if re.match(r"\w+Error: ", str(o))}
    for rank in launched.ranks:
        for mark, after in zip(rank.marks, rank.marks[1:], strict=False):
            calls = [call for call in rank.calls if mark.at <= call.issued < after.at]
            carried[mark.name] += sum(call.nbytes for call in calls)
            assert calls or mark.name in failed, mark.name
            if not mark.name.startswith("c10d."):  # whose handles are not PyTorch's for Python
                assert all(call.finished is not None for call in calls), mark.name
            assert all(call.line for call in calls), mark.name
    carry_nothing = {name for name, nbytes in carried.items() if not nbytes}
    assert carry_nothing == failed | {name for name in carried if "barrier" in name}


def test_a_call_has_the_group_that_it_was_made_in(launched):
    """So that a judge sees that a group of one communicates with nobody."""
    for rank in launched.ranks:
        groups = {}
        for mark, after in zip(rank.marks, rank.marks[1:], strict=False):
            calls = [call for call in rank.calls if mark.at <= call.issued < after.at]
            groups[mark.name] = {call.group for call in calls}
        alone = {name for name, found in groups.items() if (rank.rank,) in found}
        assert alone == {"a group of one", "ProcessGroup.split_group"}
        assert all(groups[name] == {(rank.rank,)} for name in alone)
        assert {group for name in groups.keys() - alone for group in groups[name]} == {(0, 1)}
