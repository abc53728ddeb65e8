"""Ranks with proxies, which have no network, meet where the answer has them meet, or not at all."""

import os
import sys

import cloudpickle
import pytest
import torch
import torch.distributed as dist

from hpml.ranks import launch

cloudpickle.register_pickle_by_value(sys.modules[__name__])  # which ranks cannot import


def here():
    return int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])


def port():
    return int(os.environ["MASTER_PORT"])


def from_environment():
    dist.init_process_group()


def from_environment_by_its_url():
    rank, size = here()
    os.environ.pop("RANK")
    dist.init_process_group("gloo", init_method="env://", rank=rank, world_size=size)


def at_an_address():
    rank, size = here()
    name = ("localhost", "127.0.0.1")[rank % 2]
    dist.init_process_group("gloo", f"tcp://{name}:{port()}", rank=rank, world_size=size)


def at_an_address_with_all_in_it():
    rank, size = here()
    url = f"tcp://localhost:{port()}?rank={rank}&world_size={size}"
    for name in ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"):
        os.environ.pop(name)
    dist.init_process_group("gloo", url)


def by_a_store():
    rank, size = here()
    store = dist.TCPStore("localhost", port(), size, rank == 0)
    store = dist.PrefixStore("a", dist.PrefixStore("b", store))
    dist.init_process_group("gloo", store=store, rank=rank, world_size=size)


def twice():
    from_environment()
    dist.destroy_process_group()
    by_a_store()


def at_other_ports():
    os.environ["MASTER_PORT"] = str(port() + here()[0])
    from_environment()


def by_a_store_and_a_file():
    rank, size = here()
    if rank:
        by_a_store()
    dist.init_process_group(init_method="file:///tmp/here", rank=rank, world_size=size)


def elsewhere():
    os.environ["MASTER_ADDR"] = "node7"
    from_environment()


def by_a_store_elsewhere():
    dist.TCPStore("node7", port(), 2, here()[0] == 0)


def as_another_rank():
    dist.init_process_group(rank=0, world_size=here()[1])


def as_one_of_more():
    dist.init_process_group(rank=here()[0], world_size=2 * here()[1])


def as_nobody():
    os.environ.pop("RANK")
    from_environment()


def by_carrier_pigeon():
    dist.init_process_group(init_method="pigeon://", rank=here()[0], world_size=2)


def summed(meet):
    def drive():
        meet()
        total = torch.tensor(10 ** dist.get_rank())
        dist.all_reduce(total)
        return [dist.get_rank(), dist.get_world_size(), dist.get_backend(), int(total)]

    return drive


WAYS = [
    from_environment,
    from_environment_by_its_url,
    at_an_address,
    at_an_address_with_all_in_it,
    by_a_store,
]
# Not twice without proxies: the port may not be free again yet
BOTH = [(meet, proxied) for meet in WAYS for proxied in (False, True)]


@pytest.mark.parametrize(("meet", "proxied"), [*BOTH, (twice, True)])
def test_ranks_meet(meet, proxied):
    evidence = launch(summed(meet), 2, process_group=False, proxied=proxied, timeout=60)
    assert evidence.diagnosis is None, evidence.diagnosis
    assert evidence.values == ([0, 2, "gloo", 11], [1, 2, "gloo", 11])
    for rank in evidence.ranks:
        met = ["init_process_group"] * (2 if meet is twice else 1)
        made = [call.operation for call in rank.calls if call.operation != "TCPStore"]
        assert made == [*met, "all_reduce"]


@pytest.mark.parametrize("meet", [at_other_ports, by_a_store_and_a_file])
def test_ranks_that_name_different_places_do_not_meet(meet):
    evidence = launch(summed(meet), 2, process_group=False, proxied=True, timeout=60)
    assert (evidence.diagnosis.kind, evidence.diagnosis.cause) == ("hang", "apart")
    for rank in evidence.ranks:
        assert {call.operation for call in rank.calls} <= {"init_process_group"}
        assert [call for call in rank.calls if call.finished is not None] == []


@pytest.mark.parametrize(
    ("meet", "kind", "why"),
    [
        (elsewhere, "DistNetworkError", "node7"),
        (by_a_store_elsewhere, "DistNetworkError", "node7"),
        (as_another_rank, "ValueError", "rank 1 gave init_process_group the rank 0"),
        (as_one_of_more, "ValueError", "the world size 4, and there are 2 in all"),
        (as_nobody, "ValueError", "environment variable RANK expected, but not set"),
        (by_carrier_pigeon, "ValueError", "No rendezvous handler"),
    ],
)
def test_what_is_no_place_or_no_rank_of_the_job_is_named(meet, kind, why):
    evidence = launch(summed(meet), 2, process_group=False, proxied=True, timeout=60)
    assert evidence.ranks[1].raised.kind == kind
    assert why in evidence.ranks[1].raised.message


def from_its_own_node():
    rank, size = here()
    dist.init_process_group("gloo", f"tcp://localhost:{port()}", rank=rank, world_size=size)


def at_the_default_port():
    rank, size = here()
    url = f"tcp://{os.environ['MASTER_ADDR']}:29500"
    dist.init_process_group("gloo", url, rank=rank, world_size=size)


@pytest.mark.parametrize("proxied", [False, True])
def test_ranks_on_several_nodes_meet_at_the_address_that_they_are_given(proxied):
    evidence = launch(
        summed(from_environment),
        3,
        process_group=False,
        proxied=proxied,
        link="10gbit",
        per_node=1,
        timeout=60,
    )
    assert evidence.diagnosis is None, evidence.diagnosis


@pytest.mark.parametrize(
    ("meet", "why"), [(from_its_own_node, "rank 0 is not there"), (at_the_default_port, "in use")]
)
def test_with_proxies_they_meet_nowhere_else(meet, why):
    """On a network another node's localhost is that node, and the default port is often taken."""
    evidence = launch(
        summed(meet), 2, process_group=False, proxied=True, per_node=1, link="10gbit", timeout=60
    )
    assert evidence.diagnosis.kind == "raised"
    assert why in evidence.diagnosis.sentence


def test_ranks_that_have_all_come_and_do_not_meet_are_found_before_the_limit():
    evidence = launch(
        summed(from_its_own_node), 2, process_group=False, per_node=1, link="10gbit", timeout=60
    )
    if evidence.no_link:
        pytest.skip(f"no emulated network: {evidence.no_link}")
    found = evidence.diagnosis
    assert (found.kind, found.cause, found.ranks) == ("hang", "apart", (0, 1))
    assert "is another machine on each of them; all have come, and do not meet" in found.sentence
