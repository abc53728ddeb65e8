"""What ranks ask for is served and logged in this process."""

import os
import threading

import pytest
import torch
import torch.distributed as dist
from torch.utils.data import DataLoader, Dataset

from hpml.ranks import Reply, ask, encoding, launch
from hpml.ranks.parent.ledger import MAX_ASKED, MAX_REQUEST, RankLog
from hpml.ranks.parent.serving import Serving


def double(rank, request):
    if not isinstance(request, int):
        raise ValueError(f"give a number, not {request}")
    return [Reply(rank, [rank, 2 * request])]


def test_a_rank_gets_its_reply_and_each_request_is_in_the_evidence():
    def drive():
        return [ask(number) for number in range(3)]

    evidence = launch(drive, 2, serve=double, process_group=False)
    assert evidence.diagnosis is None
    for rank in evidence.ranks:
        assert rank.value == [[rank.rank, 0], [rank.rank, 2], [rank.rank, 4]]
        assert [asked.request for asked in rank.asked] == [0, 1, 2]
        times = [t for asked in rank.asked for t in (asked.at, asked.answered)]
        assert times == sorted(times)
        assert times[0] > 0
        assert times[-1] <= evidence.seconds


def test_tensors_cross_both_ways_larger_than_a_socket_holds():
    def drive():
        return float(ask(torch.ones(100_000)).sum())

    def serve(rank, request):
        return [Reply(rank, (1 + rank) * request.repeat(10))]

    evidence = launch(drive, 2, serve=serve, process_group=False)
    assert evidence.values == (1e6, 2e6)


def test_threads_and_forked_processes_of_a_rank_may_ask_at_the_same_time():
    def drive():
        def child():
            pid = os.fork()
            if pid == 0:
                right = all(ask(n)[1] == 2 * n for n in range(100, 120))
                os._exit(not right)
            return pid

        pids = [child() for _ in range(2)]
        found = []

        def many(first):
            found.extend(ask(first + n)[1] == 2 * (first + n) for n in range(20))

        threads = [threading.Thread(target=many, args=[1000 * k]) for k in range(1, 4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        statuses = [os.waitpid(pid, 0)[1] for pid in pids]
        return [all(found), len(found), statuses]

    evidence = launch(drive, 1, serve=double, process_group=False)
    assert evidence.values == ([True, 60, [0, 0]],)
    assert len(evidence.ranks[0].asked) == 100


def test_workers_of_a_loader_ask_while_the_rank_communicates():
    def drive():
        class Served(Dataset):
            def __len__(self):
                return 12

            def __getitem__(self, index):
                return ask(index)[1]

        total = torch.zeros(1)
        for batch in DataLoader(Served(), batch_size=4, num_workers=2):
            part = batch.sum().float().reshape(1)
            dist.all_reduce(part)
            total += part
        return total.item()

    evidence = launch(drive, 2, serve=double)
    assert evidence.diagnosis is None, evidence.diagnosis
    assert evidence.values == (264.0, 264.0)
    for rank in evidence.ranks:
        assert sorted(asked.request for asked in rank.asked) == list(range(12))
        assert len(rank.calls) == 3


def test_a_refused_request_raises_where_it_was_made_and_is_logged_as_refused():
    def drive():
        try:
            ask("two")
        except ValueError as error:
            return [str(error), ask(2)]

    (rank,) = launch(drive, 1, serve=double, process_group=False).ranks
    assert rank.value == ["give a number, not two", [0, 4]]
    assert [asked.refused for asked in rank.asked] == [True, False]


def test_a_rank_may_be_kept_waiting_until_another_has_asked():
    held = []

    def serve(rank, request):
        if request == "hold me":
            held.append(rank)
            return []
        replies = [Reply(rank, bool(held))]
        if request == "release it":
            replies.append(Reply(0, "go on", after=0.05))
        return replies

    def drive(number):
        if number == 0:
            return ask("hold me")
        while not ask("is it held?"):
            pass
        return ask("release it")

    evidence = launch(drive, 2, inputs=[0, 1], serve=serve)
    assert evidence.diagnosis is None, evidence.diagnosis
    assert evidence.values == ("go on", True)
    waited, released = evidence.ranks[0].asked[0], evidence.ranks[1].asked[-1]
    assert waited.at < released.at
    assert waited.answered >= released.at + 0.05


def test_ranks_that_all_wait_for_a_reply_are_a_hang_with_their_lines():
    answer = "def wait(ask):\n    return ask('never')\n"

    def drive(answer, number):
        if number == 0:
            return answer.wait(ask)
        dist.barrier()

    evidence = launch(drive, 2, answer=answer, inputs=[0, 1], serve=lambda *_: [])
    assert evidence.diagnosis.kind == "hang"
    assert "rank 0 waits for a reply at line 2 of your answer" in evidence.diagnosis.sentence
    assert evidence.ranks[0].asked[0].answered is None


def test_asking_where_nobody_serves_says_so():
    evidence = launch(lambda: ask(1), 1, process_group=False)
    assert "there is no server to ask" in evidence.ranks[0].raised.message


def test_a_fault_of_the_server_is_raised_here_and_not_the_ranks():
    def broken(rank, request):
        raise KeyError("ours")

    with pytest.raises(KeyError, match="ours"):
        launch(lambda: ask(1), 1, serve=broken, process_group=False)


def serving(serve=double):
    log, sent = RankLog(0, 0.0), []
    return Serving(serve, [log], lambda rank, data: sent.append(data)), log, sent


@pytest.mark.parametrize(
    "event",
    [
        ["ask"],
        ["ask", 1],
        ["ask", "1", encoding.encode(1)],
        ["ask", 1, "text"],
        ["ask", 1, b"\xc1"],
        ["ask", 1, encoding.encode(bytes(MAX_REQUEST))],
    ],
)
def test_a_malformed_request_is_refused(event):
    server, log, sent = serving()
    with pytest.raises(ValueError, match=r"request|ranks' encoding"):
        server.take(0, event, 0.0)
    assert not sent
    assert not log.asked


def test_requests_are_bounded_and_one_is_open_at_a_time():
    server, log, sent = serving()
    for number in range(MAX_ASKED):
        server.take(0, ["ask", number, encoding.encode(1)], 0.0)
    assert len(sent) == MAX_ASKED
    with pytest.raises(ValueError, match="requests"):
        server.take(0, ["ask", 1, encoding.encode(1)], 0.0)
    assert len(log.asked) == MAX_ASKED

    server, _, _ = serving(lambda *_: [])
    server.take(0, ["ask", 1, encoding.encode(1)], 0.0)
    with pytest.raises(ValueError, match="at once"):
        server.take(0, ["ask", 2, encoding.encode(1)], 0.0)
