"""Published tables predicted: what is used, what is not, and what comes out either way."""

from dataclasses import replace

import pytest

from hpml.errors import UserError
from hpml.modules.m08_case_studies.lecture import scaling_findings
from hpml.predict import published_predicted, scaling_misses
from hpml.predict.published_predicted import (
    Predicted,
    Table,
    commonly,
    images_per_s,
    network,
    one_rank,
    predict_table,
    predicted,
    training,
    why_not,
)
from hpml.predict.published_scaling import split, table, tables
from hpml.predict.scaling import Training, buckets
from hpml.predict.scaling_fit import Interval, fit

ETHERNET, INFINIBAND = "azure-v100-resnet50-tcp", "azure-v100-resnet50-rdma"
ROWS = table(ETHERNET)


def test_the_fit_sees_the_rows_that_split_gives_it_and_no_other(monkeypatch):
    seen = []

    def watched(training, points, *rest):
        seen.extend(point.ranks for point in points)
        return fit(training, points, *rest)

    monkeypatch.setattr(published_predicted, "fit", watched)
    made = predict_table(ETHERNET)
    assert seen == [row.ranks for row in split(ROWS)[0]]
    assert [row.row.ranks for row in made.test] == [row.ranks for row in split(ROWS)[1]]


def test_what_the_fit_has_not_seen_does_not_change_what_is_predicted(monkeypatch):
    before = predict_table(ETHERNET)
    last = replace(ROWS[-1], value=2 * ROWS[-1].value)
    monkeypatch.setattr(published_predicted, "table", lambda name: (*ROWS[:-1], last))
    after = predict_table(ETHERNET)
    assert [row.predicted for row in after.rows] == [row.predicted for row in before.rows]
    assert after.worst == pytest.approx(abs((1 + before.rows[-1].error) / 2 - 1))


def test_every_table_is_predicted_or_has_a_reason():
    able, left_out = predicted()
    assert {one.name for one in able} | set(left_out) == set(tables())
    assert not {one.name for one in able} & set(left_out)
    assert all(left_out.values())
    for one in able:
        assert one.test
        assert len(one.rows) == len(table(one.name))


def test_one_rank_is_met_exactly():
    row = predict_table(ETHERNET).rows[0]
    assert row.row.ranks == 1
    assert row.predicted == pytest.approx(row.published)


def test_units_become_images_per_second():
    row = replace(ROWS[0], ranks=4, batch=32)
    assert images_per_s(replace(row, unit="images/s", value=100.0)) == 100
    assert images_per_s(replace(row, unit="s/step", value=0.5)) == 4 * 32 / 0.5
    assert images_per_s(replace(row, unit="s/epoch", value=100.0)) == pytest.approx(12811.67)
    alone = images_per_s(one_rank("resnet50", "V100"))
    half = replace(row, unit="efficiency", value=0.5)
    assert images_per_s(half) == pytest.approx(0.5 * 4 * alone)


def test_one_rank_is_the_middle_of_what_was_published():
    values = sorted(
        images_per_s(rows[0])
        for rows in tables().values()
        if rows[0].ranks == 1 and rows[0].number != "fp16" and rows[0].batch
        if (rows[0].model, rows[0].processor) == ("resnet50", "P100")
    )
    assert images_per_s(one_rank("resnet50", "p100")) == values[(len(values) - 1) // 2]
    assert one_rank("resnet50", "abacus") is None
    assert one_rank("resnet50", "Pascal GPU") == one_rank("resnet50", "P100")


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"algorithm": "pipeline"}, "pipeline parallel: activations that go"),
        ({"algorithm": "tensor"}, "tensor parallel: four all-reduces of activations"),
        ({"model": "googlenet"}, "layers of googlenet"),
        ({"scaling": "strong"}, "strong scaling"),
        ({"batch": None}, "batch of a rank"),
        ({"unit": "normalised"}, "in normalised"),
        ({"unit": "efficiency", "processor": "abacus"}, "nobody published one abacus"),
    ],
)
def test_why_a_table_cannot_be_predicted(change, why):
    assert why in why_not([replace(row, **change) for row in ROWS])
    assert "one row" in why_not(ROWS[:1])
    assert why_not(ROWS) == ""


def test_a_table_that_is_not_there():
    with pytest.raises(UserError, match="no published table 'nowhere'"):
        predict_table("nowhere")


def test_the_method_decides_what_is_known_of_messages():
    def of(method: str) -> Training:
        return training([replace(row, method=method) for row in ROWS])

    assert of("Horovod, NCCL").bucket_bytes == 64 * 2**20
    assert of("replicated, NCCL").bucket_bytes == 1
    assert of("something else").bucket_bytes == 25 * 2**20
    assert training([replace(row, number="fp16") for row in ROWS]).gradient_share == 0.5
    assert of("FSDP, FULL_SHARD").bucket_bytes == 1
    assert of("one all-reduce after the last micro-batch").bucket_bytes == float("inf")
    sharded = training([replace(row, algorithm="sharded", number="bf16") for row in ROWS])
    assert sharded.gradient_share == 0.75
    spread = training([replace(row, algorithm="parameter-server") for row in ROWS])
    assert spread.algorithm == "hierarchical"


def test_accumulated_micro_batches_are_shares_of_one_batch_and_nothing_hides_the_all_reduce():
    few = [replace(row, ranks=8 * row.ranks, scaling="accumulated", batch=64) for row in ROWS]
    run = training(few)
    assert (run.global_batch, run.overlap) == (64 * few[0].ranks, False)
    assert run.images_per_s == few[0].value / few[0].ranks
    assert (training(ROWS).global_batch, training(ROWS).overlap) == (None, True)


def test_the_network_is_nodes_where_a_row_has_several():
    inside, between = network(ROWS).levels
    assert (inside.ranks, between.ranks) == (4, None)
    assert between.cost.beta == pytest.approx(8 / 100e9)  # not given
    assert len(network(ROWS[:3]).levels) == 1
    known = [replace(row, network_gbit=10.0) for row in ROWS]
    assert network(known).levels[1].cost.beta == pytest.approx(8 / 10e9)


def test_common_constants_leave_a_wide_interval():
    common, own = commonly(training(ROWS)), predict_table(ETHERNET).fitted
    wide, narrow = common.interval(32), own.interval(32)
    assert wide.high / wide.low > 1.5 * narrow.high / narrow.low


def made_up(published: list[float], fitted: int = 2, nodes: int = 1) -> Table:
    """Images/s on 1, 2, 4, … ranks; 100 on each are predicted."""
    rows = []
    for number, value in enumerate(published):
        ranks = 2**number
        row = replace(ROWS[0], ranks=ranks, per_node=max(1, 2 ** len(published) // (2 * nodes)))
        interval = Interval(90.0 * ranks, 110.0 * ranks)
        rows.append(Predicted(row, value, 100.0 * ranks, interval, number < fitted, 80.0 * ranks))
    base = replace(training(ROWS), images_per_s=100.0)
    return Table("made up", fit(base, []), tuple(rows))


MET = made_up([100, 200, 400, 780])
MISSED = made_up([100, 194, 250, 450])


def test_median_and_worst_are_of_unseen_rows_alone():
    one = made_up([10, 20, 400, 500])
    assert one.median == pytest.approx(0.3)
    assert one.worst == pytest.approx(0.6)
    assert not one.met
    assert MET.met
    assert made_up([100, 200, 400, 500]).worst == pytest.approx(0.6)


def test_why_a_table_was_missed():
    assert scaling_misses.why_missed(MET) == ""
    again = scaling_misses.why_missed(made_up([100, 200, 200, 700]))
    assert "each rank makes 75% more images/s on 8 ranks than on 4" in again
    late = scaling_misses.why_missed(MISSED)
    assert "each rank loses 3% up to 2 ranks" in late
    assert "does not" not in late
    beyond = scaling_misses.why_missed(made_up([100, 194, 250, 450], nodes=2))
    assert "no row that was fitted used the network between nodes" in beyond
    steady = scaling_misses.why_missed(made_up([60, 120, 240, 480]))
    assert steady == "its rows do not show why"
    unmet = scaling_misses.why_missed(predict_table("mxnet-ec2-alexnet"))
    assert unmet.endswith("meet the rows that were fitted: not those of 2, 16 ranks")


def test_misses_are_listed_worst_first():
    lines = scaling_misses.not_in_the_model([MET, MISSED, made_up([100, 195, 150, 300])])
    assert len(lines) == 2
    assert "166.7% off" in lines[0]
    assert str(scaling_findings.Misses([MISSED])).startswith("- made up: 77.8% off")


def test_all_tables_are_nearer_than_carrying_on_or_not():
    found = scaling_findings.all_tables([MET])
    assert found == (True, 2, pytest.approx(0.0128, abs=1e-4), pytest.approx(0.19, abs=0.01), 1, 1)
    found = scaling_findings.all_tables([MISSED, MET])
    assert not found.held  # one of two is not more than half
    assert (found.rows, found.met, found.inside) == (4, 1, 0.5)
    # Published is what carrying on gives: 80 of each.
    assert not scaling_findings.all_tables([made_up([100, 160, 320, 640])]).held


def test_two_networks_differ_in_what_is_exposed_or_in_something_else():
    slow, fast = predict_table(ETHERNET), predict_table(INFINIBAND)
    found = scaling_findings.two_networks(slow, fast)
    assert found.held
    assert (found.ranks, found.most) == (32, scaling_findings.EXPOSED)
    computing = [1e3 * step.compute for step in (found.slow, found.fast)]
    assert computing == pytest.approx([183, 191], abs=0.5)
    found = scaling_findings.two_networks(fast, slow)
    assert (found.held, found.most) == (False, "straggling")


def test_the_last_bucket_is_ready_when_backward_ends_unless_the_first_layer_is_bare():
    run = training(ROWS)
    filled = buckets(run)
    assert len(filled) == 2
    assert filled[-1][0] == pytest.approx(run.compute, rel=0.01)
    bare = replace(run.model.layers[0], flop=1e12, parameter_bytes=0)
    first_is_bare = replace(run, model=replace(run.model, layers=(bare, *run.model.layers)))
    assert buckets(first_is_bare)[-1][0] < 0.99 * first_is_bare.compute
