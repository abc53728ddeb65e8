"""What the lecture concludes: each holds where it was measured, and only there."""

import math

import pytest

from hpml.modules.m01_parallel_sgd.lecture import findings
from hpml.modules.m01_parallel_sgd.lecture.updates import Update
from hpml.predict.amdahl import Amdahl
from hpml.predict.parallelism import Network, data_parallel, layer_parallel, tensor_parallel
from hpml.ranks.evidence import Call, Evidence, RankEvidence, Traffic


def test_a_speed_up_holds_where_two_ranks_are_faster_and_names_the_limit():
    held, sentence, _ = findings.speed_up({1: 1.0, 2: 0.6, 16: 0.25}, Amdahl(0.2, 0.8))
    assert held
    assert "1.7 times as fast" in sentence
    assert "16 (simulated) 4.0 times" in sentence
    assert "20%" in sentence
    assert "at most 5.0 times" in sentence
    assert not findings.speed_up({1: 1.0, 2: 1.1, 16: 0.5}, Amdahl(0.2, 0.8))[0]


def test_the_dearest_plan_is_named_with_its_bytes():
    example = Network(layers=4, width=1024, batch=256)
    plans = [make(example, ranks=4) for make in (data_parallel, tensor_parallel, layer_parallel)]
    held, sentence, _ = findings.dearest(plans)
    assert held
    assert "*data* sends the most, 25.2 MB" in sentence
    assert "*layers (model)* sends the least, 2.1 MB" in sentence
    assert sentence.endswith("Each rank is idle 75% of the time with *layers (model)*.")


def test_plans_that_send_equally_little_are_all_named():
    example = Network(layers=4, width=1024, batch=256)
    plans = [data_parallel(example, ranks=4), layer_parallel(example, ranks=4)]
    plans.append(layer_parallel(example, ranks=4, micro_batches=8))
    _, sentence, _ = findings.dearest(plans)
    assert "*layers (model)* and *pipeline, 8 micro-batches* send the least, 2.1 MB" in sentence


def test_a_sum_that_goes_four_times_as_far_is_what_is_claimed():
    assert findings.same_batch(True, 4.0)[0]
    assert not findings.same_batch(True, 1.0)[0]
    assert not findings.same_batch(False, 4.0)[0]


def test_the_rule_nearest_to_one_worker_and_those_that_diverge_are_named():
    runs = {
        "1 worker": [(1, 2.0), (2, 0.2)],
        "none": [(1, 2.0), (2, 1.2)],
        "sqrt": [(1, 2.0), (2, 0.7)],
        "linear": [(1, 2.0), (2, math.nan)],
        "bold": [(1, 90.0), (2, 0.1)],
    }
    held, sentence, _ = findings.rules(runs, diverged=30)
    assert held
    assert "comes *sqrt*, with a loss of 0.70" in sentence
    assert "that train is *none* with 1.20" in sentence
    assert "What diverges: *linear* and *bold*" in sentence
    assert not findings.rules({"1 worker": [(1, 0.9)], "none": [(1, 0.5)]}, 30)[0]
    assert not findings.rules({"1 worker": [(1, 0.9)], "none": [(1, 99.0)]}, 30)[0]


def synchronous(seconds, waits, ranks=4):
    calls = tuple(
        Call(n, "all_reduce", (0, 1), n, "float32", (2,), 8, "sum", 1, at, at, at + waits)
        for n, at in enumerate((1.0, 2.0))
    )
    first = RankEvidence(0, "returned", value=[{"at": seconds / 2}, {"at": seconds}], calls=calls)
    others = tuple(RankEvidence(rank, "returned") for rank in range(1, ranks))
    return Evidence(ranks, (first, *others), seconds)


def asynchronous(seconds, workers):
    log = [{"worker": worker, "at": seconds} for worker in workers]
    return Evidence(1, (RankEvidence(0, "returned", value=log),), seconds)


def test_the_share_of_waiting_is_that_of_the_all_reduces():
    assert findings.waited(synchronous(0.4, 0.15), rank=0) == pytest.approx(0.75)


def test_not_waiting_holds_where_it_was_sooner_and_the_straggler_made_least():
    together, apart = synchronous(0.4, 0.1), asynchronous(0.1, [0, 2, 3, 0, 2, 3, 1])
    held, sentence, _ = findings.without_waiting(together, apart, slow=1)
    assert held
    assert "computes 2 gradients, in 400 ms" in sentence
    assert "the 7 gradients take 100 ms, and the workers computed 2, 1, 2, 2" in sentence
    assert not findings.without_waiting(together, apart, slow=0)[0]
    assert not findings.without_waiting(synchronous(0.05, 0.01), apart, slow=1)[0]


def log(stale, *places):
    return [Update(0.1 * n, 0, stale, (place, 0.0)) for n, place in enumerate(places)]


def test_four_workers_that_do_not_settle_are_told_from_four_that_do():
    alone = log(0, 3.0, 0.0)
    far, near = log(3, 3.0, 5.0, -5.0, 5.0), log(3, 3.0, 0.0, 0.0, 0.0)
    held, sentence, _ = findings.staleness({"1 worker": alone, "4 workers": far}, 0.0)
    assert held
    assert "four are 3.0" in sentence
    assert "0.00 and 5.00 away" in sentence
    assert not findings.staleness({"1 worker": alone, "4 workers": near}, 0.0)[0]


def run(seconds, worker, *places, stale=0):
    each = seconds / len(places)
    return [
        Update(each * (n + 1), worker if worker < 0 else n % worker, stale, (place, 0.0))
        for n, place in enumerate(places)
    ]


def test_runs_with_and_without_waiting_are_compared_at_the_same_time():
    waiting = {
        "1 worker": run(0.3, -1, 0.0, 0.0, 0.0),
        "4 workers": run(0.3, -1, 3.0, 1.0, 1.0),
        "4, one slow": run(3.0, -1, 5.0, 0.0, 0.0),
    }
    going_on = {
        "1 worker": run(0.3, 1, 9.0, 9.0, 9.0),
        "4 workers": run(0.3, 4, 5.0, 5.0, 5.0, 5.0, stale=3),
        "4, one slow": run(1.0, 4, 3.0, 2.0, 2.0, 2.0, stale=1),
    }
    held, sentence, _ = findings.in_the_same_time(waiting, going_on, lambda x, y: x)
    assert held
    assert "ahead with *4, one slow*: more updates" in sentence
    assert "behind with *4 workers*." in sentence
    # The synchronous one had made a step after 1 s, and its later ones do not count.
    assert "*4, one slow* 5.000 with waiting, 2.000 without (1.0 s; median staleness 1" in sentence
    assert "1 worker" not in sentence
    held, _, otherwise = findings.in_the_same_time(
        waiting, going_on | {"4 workers": run(0.3, 4, 0.0, 0.0, 0.0, 0.0)}, lambda x, y: x
    )
    assert not held
    level = going_on | {"4 workers": run(0.3, 4, *[5 / 3] * 3)}
    sentence = findings.in_the_same_time(waiting, level, lambda x, y: x)[1]
    assert "behind with none and level with *4 workers*." in sentence
    assert "*4 workers* 1.667 with waiting, 0.000 without" in otherwise


def linked(*received):
    ranks = tuple(
        RankEvidence(number, "returned", traffic=Traffic(0, 1, int(count), 1))
        for number, count in enumerate(received)
    )
    return Evidence(len(ranks), ranks, 1.0)


def test_bytes_hold_where_they_are_those_of_the_algorithm_and_some_headers():
    server, ring = linked(12.4e6, 4.1e6, 4.1e6, 4.1e6), linked(6.2e6, 6.2e6, 6.2e6, 6.2e6)
    held, sentence, _ = findings.bytes_of_links(server, ring, nbytes=4e6, rate=1e9)
    assert held
    assert "receives 12.4 MB on 4 ranks" in sentence
    assert "99 ms each way" in sentence
    assert "more than 6.2 MB, 50 ms" in sentence
    assert "With 2 and 3 ranks it is 4 and 8 MB, and on the ring 4.0 and 5.3 MB." in sentence
    assert not findings.bytes_of_links(ring, ring, nbytes=4e6, rate=1e9)[0]
    assert not findings.bytes_of_links(server, server, nbytes=4e6, rate=1e9)[0]


def test_who_sends_least_between_nodes_is_named():
    found = {
        "naive": (6, 6.0, 2.1),
        "tree": (6, 6.0, 1.07),
        "ring": (24, 6.0, 1.6),
        "halving-doubling": (16, 6.0, 2.2),
        "hierarchical": (16, 6.0, 1.08),
    }
    held, sentence, _ = findings.least_crossing(found)
    assert held
    assert "Naive and tree need the fewest messages, 6." in sentence
    assert "Between the nodes tree and hierarchical send the least, 1.1 MB" in sentence
    assert not findings.least_crossing(found | {"ring": (24, 6.0, 1.0)})[0]
    assert not findings.least_crossing(found | {"ring": (24, 9.0, 1.6)})[0]
