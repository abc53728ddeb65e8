"""Launches with links, for real: limits and counters of the kernel, and nothing left behind."""

import errno
import os
import re
import subprocess
import sys
import threading
import time
from pathlib import Path

import psutil
import pytest
import torch
import torch.distributed as dist
from torch import nn

from hpml.network import available, emulation
from hpml.network.emulation import INTERFACE, address
from hpml.ranks import launch
from hpml.ranks.parent import warm

OWN = os.readlink("/proc/self/ns/net")
LIMIT = 90.0  # seconds that any process here may take
MEGABYTE = 10**6
SETUP = 150_000  # bytes per rank, at most, to find and greet each other


class Watched:
    """The network namespaces that a process's descendants are in, as long as it is watched.

    Only of its descendants: tests that run beside this one make namespaces too.
    """

    def __init__(self, pid: int | None = None) -> None:
        self._process = psutil.Process(pid)
        self._over = threading.Event()
        self._watch = threading.Thread(target=self._look, daemon=True)
        self._before = self._now()
        self.made: set[str] = set()

    def __enter__(self) -> "Watched":
        self._watch.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._over.set()
        self._watch.join()

    def _look(self) -> None:
        while not self._over.wait(0.01):
            self.made |= self._now() - self._before

    def _now(self) -> set[str]:
        try:
            return namespaces(self._process.children(recursive=True)) - {OWN}
        except psutil.NoSuchProcess:
            return set()


def namespaces(processes) -> set[str]:
    """The network namespaces that `processes` are in."""
    found = set()
    for process in processes:
        try:
            found.add(os.readlink(f"/proc/{process.pid}/ns/net"))
        except OSError:  # it ended, or belongs to somebody else
            continue
    return found


def gone(made: set[str], limit: float = 10.0) -> bool:
    """Whether within `limit` seconds no process of this machine is in one of these namespaces.

    And whether no interface of a launch is among this namespace's own.
    """
    deadline = time.monotonic() + limit
    while time.monotonic() < deadline:
        cables = [n for n in psutil.net_if_addrs() if re.match("port|switch|uplink|core", n)]
        if not made & namespaces(psutil.process_iter()) and not cables:
            return True
        time.sleep(0.05)
    return False


@pytest.mark.parametrize("world_size", [1, 2, 3, 4])
def test_with_a_link_the_results_are_the_same_and_the_bytes_are_counted(world_size):
    def drive():
        tensor = torch.ones(MEGABYTE // 4)
        dist.all_reduce(tensor)
        dist.barrier()
        return float(tensor.sum())

    linked, alone = launch(drive, world_size, link="1gbit"), launch(drive, world_size)
    assert linked.diagnosis is None, linked.diagnosis
    assert linked.values == alone.values
    assert (linked.link.rate, linked.no_link) == (10**9, "")
    assert (alone.link, alone.no_link, alone.ranks[0].traffic) == (None, "", None)
    bound = 2 * (world_size - 1) / world_size * MEGABYTE
    for rank in linked.ranks:
        for carried in (rank.traffic.sent_bytes, rank.traffic.received_bytes):
            assert bound <= carried <= 1.06 * bound + SETUP
        assert rank.traffic.sent_packets >= bound / 65536


def test_what_one_rank_sends_another_receives_and_a_third_sees_nothing():
    def drive(rank):
        tensor = torch.ones(MEGABYTE // 4)
        if rank == 0:
            dist.send(tensor, 2)
        if rank == 2:
            dist.recv(tensor, 0)
        dist.barrier()

    ranks = launch(drive, 3, inputs=[0, 1, 2], link="1gbit").ranks
    assert ranks[0].traffic.sent_bytes > MEGABYTE > ranks[0].traffic.received_bytes
    assert ranks[2].traffic.received_bytes > MEGABYTE > ranks[2].traffic.sent_bytes
    assert ranks[1].traffic.sent_bytes + ranks[1].traffic.received_bytes < SETUP


def test_what_stays_within_a_node_does_not_cross_its_uplink():
    def drive(peers):
        tensor = torch.ones(MEGABYTE // 4)
        rank = dist.get_rank()
        if rank in peers:
            dist.send(tensor, peers[rank])
        if rank in peers.values():
            dist.recv(tensor, next(source for source, to in peers.items() if to == rank))
        dist.barrier()
        return [os.environ[name] for name in ("LOCAL_RANK", "LOCAL_WORLD_SIZE", "GROUP_RANK")]

    link = "nodes=2x2,intra=10gbit,inter=1gbit"
    within = launch(drive, 4, inputs=[{0: 1}] * 4, link=link)
    across = launch(drive, 4, inputs=[{0: 2}] * 4, link=link)
    assert [value for value in within.values] == [
        ["0", "2", "0"],
        ["1", "2", "0"],
        ["0", "2", "1"],
        ["1", "2", "1"],
    ]
    assert within.ranks[0].traffic.sent_bytes > MEGABYTE
    assert all(node.sent_bytes < SETUP for node in within.uplinks)
    first, second = across.uplinks
    assert first.sent_bytes > MEGABYTE > first.received_bytes
    assert second.received_bytes > MEGABYTE > second.sent_bytes


@pytest.mark.measures
def test_the_kernel_keeps_the_rate_and_the_rank_cannot_change_it():
    def drive():
        from pyroute2 import IPRoute, NetlinkError

        with IPRoute() as netlink:
            own = netlink.link_lookup(ifname=INTERFACE)[0]
            limit = next(q for q in netlink.get_qdiscs() if q["index"] == own)
            rate = limit.get_nested("TCA_OPTIONS", "TCA_TBF_PARMS")["rate"]
            refused = []
            for change in (
                lambda: netlink.tc("del", index=own, root=True),
                lambda: netlink.link("set", index=own, state="down"),
                lambda: netlink.link("add", ifname="other", kind="dummy"),
            ):
                try:
                    change()
                except NetlinkError as error:
                    refused.append(error.code)
        executed = subprocess.run(["cat", "/proc/self/status"], capture_output=True, text=True)
        capabilities = [line for line in executed.stdout.splitlines() if line.startswith("Cap")]
        return {
            "kind": limit.get_attr("TCA_KIND"),
            "rate": rate,
            "refused": refused,
            "capabilities": sorted({int(line.split()[1], 16) for line in capabilities}),
            "routes": Path("/proc/self/net/route").read_text().splitlines()[1:],
        }

    evidence = launch(drive, 2, link="80mbit")
    assert evidence.diagnosis is None, evidence.diagnosis
    for value in evidence.values:
        assert (value["kind"], value["rate"]) == ("tbf", 10_000_000)  # bytes per second
        assert value["refused"] == [1, 1, 1]  # EPERM
        assert value["capabilities"] == [0]
        assert len(value["routes"]) == 1  # to the other ranks, and to nowhere else


def test_ranks_have_addresses_of_their_own_and_meet_at_rank_0s():
    def drive(rank):
        dist.init_process_group("gloo")
        total = torch.tensor([rank])
        dist.all_reduce(total)
        return [os.environ["MASTER_ADDR"], total.item()]

    evidence = launch(drive, 3, inputs=[0, 1, 2], process_group=False, link="1gbit")
    assert evidence.diagnosis is None, evidence.diagnosis
    assert evidence.values == ([address(0), 3],) * 3


def test_ranks_that_talk_in_ways_of_their_own_may_wait_for_seconds_before_they_try_again():
    def drive():
        threading.Event().wait(2.5)  # as a library does that was refused
        return True

    evidence = launch(drive, 2, process_group=False, link="1gbit")
    assert evidence.diagnosis is None, evidence.diagnosis
    without = launch(drive, 2, process_group=False)
    assert without.diagnosis.kind == "hang"


def test_the_callers_environment_comes_last():
    def drive():
        return os.environ["MASTER_ADDR"]

    evidence = launch(
        drive, 2, process_group=False, link="1gbit", environment=lambda rank: {"MASTER_ADDR": "me"}
    )
    assert evidence.values == ("me", "me")


@pytest.mark.measures
def test_a_message_long_under_way_is_no_hang_not_even_out_of_the_recorders_sight():
    def drive():
        # DistributedDataParallel waits in C++; on this link it has to for two seconds.
        model = nn.parallel.DistributedDataParallel(nn.Linear(250, 250))
        model(torch.ones(1, 250)).sum().backward()
        return float(model.module.weight.grad.sum())

    evidence = launch(drive, 2, link="1mbit")
    assert evidence.diagnosis is None, evidence.diagnosis
    assert evidence.values[0] == evidence.values[1] != 0


def test_a_hang_on_a_link_is_still_a_hang():
    def drive(rank):
        dist.all_reduce(torch.ones(1000)) if rank else dist.recv(torch.ones(1), 1)

    evidence = launch(drive, 2, inputs=[0, 1], link="100mbit")
    assert evidence.diagnosis.kind in ("hang", "mismatch")
    assert evidence.ranks[0].traffic.sent_bytes > 0


@pytest.mark.parametrize("end", ["success", "exception", "kill"])
def test_nothing_is_left_of_the_network(end):
    def drive(end):
        time.sleep(0.3)  # to be seen
        if end == "exception":
            raise ValueError("on purpose")
        if end == "kill":
            os.kill(os.getpid(), 9)
        return os.readlink("/proc/self/ns/net")

    with Watched() as seen:
        evidence = launch(drive, 2, inputs=[end] * 2, link="1gbit")
    assert (evidence.diagnosis is None) == (end == "success")
    assert len(seen.made) == 3  # the two ranks', and the switch's
    if end == "success":
        assert len(set(evidence.values)) == 2
        assert set(evidence.values) < seen.made
    assert gone(seen.made, limit=1.0)


@pytest.mark.measures
def test_nothing_is_left_when_the_parent_is_killed(tmp_path):
    script = tmp_path / "parent.py"
    script.write_text(
        "import os, time\n"
        "from pathlib import Path\n"
        "from hpml.ranks import launch\n"
        "def drive(folder):\n"
        "    Path(folder, str(os.getpid())).write_text(os.readlink('/proc/self/ns/net'))\n"
        "    time.sleep(1000)\n"
        "launch(drive, 2, inputs=['.', '.'], cwd='ranks', link='1gbit')\n"
    )
    ranks = tmp_path / "ranks"
    ranks.mkdir()
    parent = subprocess.Popen([sys.executable, str(script)], cwd=tmp_path, start_new_session=True)
    try:
        with Watched(parent.pid) as seen:
            deadline = time.monotonic() + LIMIT
            while len(list(ranks.iterdir())) < 2 and time.monotonic() < deadline:
                time.sleep(0.05)
            time.sleep(0.3)  # to be seen
    finally:
        parent.kill()
        parent.wait()
    assert len(seen.made) in (3, 4)  # the server's one try of a namespace may be seen
    assert {rank.read_text() for rank in ranks.iterdir()} < seen.made
    assert gone(seen.made)


LAUNCH_AND_PRINT = """
import sys
from pathlib import Path
from hpml.network import available, emulation
from hpml.ranks import launch
from hpml.ranks.parent import warm
def drive(rank):
    import torch, torch.distributed as dist
    total = torch.tensor([rank]); dist.all_reduce(total)
    return total.item()
evidence = launch(drive, 2, inputs=[1, 2], link="1gbit")
status = dict(line.split(":\\t", 1) for line in Path("/proc/self/status").read_text().splitlines())
print([status["CapEff"], evidence.diagnosis, evidence.values, evidence.no_link,
       evidence.ranks[0].traffic is not None])
"""


def printed(*prefix: str, needs) -> list:
    """What the script above prints, run behind `prefix`."""
    needs(prefix[0])
    command = [*prefix, sys.executable, "-c", LAUNCH_AND_PRINT]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT)
    assert ended.returncode == 0, ended.stderr
    return eval(ended.stdout)


def test_an_ordinary_user_needs_no_rights_for_it(needs):
    capabilities, *rest = printed(
        "unshare", "--user", "--map-user=1000", "--map-group=1000", needs=needs
    )
    assert int(capabilities, 16) == 0
    assert rest == [None, (3, 3), "", True]


def test_where_namespaces_are_switched_off_ranks_run_without_and_the_evidence_names_why(needs):
    switch_off = 'echo 0 >/proc/sys/user/max_user_namespaces && exec "$@"'
    _, *rest = printed(
        *("unshare", "--user", "--map-root-user", "sh", "-c", switch_off, "sh"), needs=needs
    )
    assert rest[:2] == [None, (3, 3)]
    assert rest[2].startswith("namespaces for ordinary users are switched off")
    assert rest[3] is False


def test_whether_a_network_can_be_had_is_found_out_by_trying(monkeypatch):
    with Watched() as seen:
        assert available.refusal() is None
        monkeypatch.setattr(available, "_TRY", "import sys; sys.exit('no veth here')")
        assert available.refusal() == "no veth here"
        monkeypatch.setattr(available, "_TRY", "import time; time.sleep(60)")
        assert "timed out" in available.refusal(timeout=0.2)
    assert seen.made
    assert gone(seen.made)


@pytest.fixture
def elsewhere(monkeypatch):
    """A system whose C library knows nothing of Linux."""
    monkeypatch.setattr(emulation, "_libc", object())
    monkeypatch.setattr(emulation, "_refused", None)  # asked anew, and forgotten afterwards
    monkeypatch.setattr(sys, "platform", "darwin")


def test_on_a_system_without_capabilities_there_are_none_to_drop(elsewhere):
    emulation.drop_privileges()


def test_what_the_system_does_not_have_fails_as_what_it_refuses(elsewhere):
    for enter in (
        lambda: emulation.enter_nothing(None, privileged=False),
        lambda: emulation.enter_nothing(None, privileged=True),
        lambda: emulation.enter_loopback(privileged=False),
    ):
        with pytest.raises(OSError, match=r"not on this system|user namespaces") as error:
            enter()
        assert error.value.errno == errno.ENOSYS


# A warm server where a user namespace can be had, but not its maps, as on Ubuntu 24.04
WITHOUT_MAPS = """
import builtins
from hpml.network import emulation
from hpml.ranks.server import server
def refuses(path, *mode):
    if path == "/proc/self/uid_map":
        raise PermissionError(1, "Operation not permitted", path)
    return builtins.open(path, *mode)
emulation.open = refuses
server.main()
"""


def test_where_a_namespace_comes_without_its_rights_ranks_stay_where_they_are(monkeypatch):
    def drive():
        return [os.getuid(), os.getgid(), os.readlink("/proc/self/ns/user")]

    here = [os.getuid(), os.getgid(), os.readlink("/proc/self/ns/user")]
    monkeypatch.setattr(warm, "_MAIN", WITHOUT_MAPS)
    server = warm.WarmServer()
    try:
        with warm.using(server):
            proxied = launch(drive, 2, proxied=True)
            linked = launch(drive, 2, link="1gbit")
            alone = launch(drive, 2, process_group=False)
    finally:
        server.kill()
    for evidence in (proxied, linked, alone):
        assert (evidence.diagnosis, evidence.values) == (None, (here, here))
    assert linked.no_link.startswith("namespaces for ordinary users are switched off")
