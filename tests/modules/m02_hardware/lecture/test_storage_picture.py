"""Storage and prefetching as table and pictures: every number is where it belongs."""

import pytest

from hpml.measure.storage import Cost, Pass
from hpml.modules.m02_hardware.lecture.storage_picture import (
    StorageTable,
    storage_picture,
    stripes_picture,
)


def taken(seconds, opens, reads, asked):
    return Cost(1000, seconds, opens, reads, asked, 2_000_000, 7)


PASSES = [
    Pass("files", "disk, cold", "in order", taken(1.0, 1000, 2000, 3_000_000)),
    Pass("files", "disk, warm", "in order", taken(0.5, 1, 1, 1)),
    Pass("files", "disk, cold", "shuffled", taken(2.0, 1001, 2001, 3_100_000)),
    Pass("files", "disk, warm", "shuffled", taken(0.25, 1, 1, 1)),
    Pass("memory map", "disk, cold", "in order", taken(0.1, 1, 0, 0)),
    Pass("memory map", "disk, warm", "in order", taken(0.01, 1, 0, 0)),
    Pass("memory map", "disk, cold", "shuffled", taken(0.2, 2, 0, 0)),
    Pass("memory map", "disk, warm", "shuffled", taken(0.02, 1, 0, 0)),
]


def test_a_row_has_the_counts_of_the_cold_pass_in_both_orders():
    table = StorageTable(PASSES)._repr_markdown_()
    assert "| files | 1,000 / 1,001 | 2,000 / 2,001 | 3.0 / 3.1 | 2.0 / 2.0 | 7 / 7 |" in table
    assert table.count("\n| memory map |") == 1


def test_rates_and_counts_can_be_asked_for():
    table = StorageTable(PASSES)
    assert table.rates("disk, warm", "shuffled") == pytest.approx(
        {"files": 4000, "memory map": 50_000}
    )
    assert table.cost("files", "shuffled").opens == 1001
    assert table.most_opens(without="files") == 2
    assert table.warm_and_cold() == ("disk, warm", "disk, cold")
    assert table.opens_and_reads("files", "shuffled") == {
        "disk, cold": (1001, 2001),
        "disk, warm": (1, 1),
    }


def test_a_warm_cache_is_compared_with_memory_in_images_per_second():
    assert StorageTable(PASSES).against_memory("files") == {}
    memory = [
        Pass("files", "/dev/shm", order, taken(0.2, 1, 1, 1)) for order in ("in order", "shuffled")
    ]
    assert StorageTable(PASSES + memory).against_memory("files") == {
        "in order": (2000, 5000),
        "shuffled": (4000, 5000),
    }


def test_a_machine_without_a_disk_has_one_place():
    passes = [Pass("files", "/dev/shm", "in order", PASSES[0].cost)]
    assert StorageTable(passes).warm_and_cold() == ("/dev/shm", "/dev/shm")


def test_the_memory_map_is_held_against_files_with_both_caches():
    table = StorageTable(PASSES)
    assert table.gains == {"memory map": (pytest.approx(12.5), pytest.approx(10))}
    assert "dropped from the kernel's cache" in table.caches


def test_there_is_no_cold_cache_where_none_was_to_be_had():
    kept = [
        Pass(one.format, "disk", one.order, one.cost) for one in PASSES if one.place == "disk, warm"
    ]
    table = StorageTable(kept)
    assert table.gains["memory map"].cold is None
    assert "dropped" not in table.caches
    assert "no pass here has a cold cache" in table.caches


def test_every_format_is_held_against_files_the_fastest_first():
    fast = {"files": 1.0, "tar": 0.5, "HDF5": 1.1, "LMDB": 4.0, "memory map": 6.0}
    passes = [
        Pass(name, f"disk, {state}", "shuffled", taken(1 / times / more, 1, 1, 1))
        for state, more in (("cold", 0.1), ("warm", 1.0))
        for name, times in fast.items()
    ]
    gains = StorageTable(passes).gains
    assert list(gains) == ["memory map", "LMDB", "HDF5", "tar"]
    assert gains["LMDB"] == pytest.approx((4, 4))
    assert gains["tar"] == pytest.approx((0.5, 0.5))


def test_storage_and_loaders_are_in_one_table_each_from_slow_to_fast():
    text = StorageTable(PASSES).beside_loaders({"tf.data": 20_000.0, "DataLoader": 10_000.0})
    lines = [line.split() for line in text.splitlines()]
    assert lines[0] == ["images/s", "µs", "an", "image"]
    assert lines[1][-2:] == ["disk,", "warm"]
    assert lines[2:4] == [["files", "4,000", "250.0"], ["memory", "map", "50,000", "20.0"]]
    assert lines[5:] == [["DataLoader", "10,000", "100.0"], ["tf.data", "20,000", "50.0"]]


def test_every_pass_is_a_bar_of_its_rate():
    in_order, shuffled = storage_picture(PASSES, title="one").axes
    assert sorted(bar.get_width() for bar in in_order.patches) == [1000, 2000, 10_000, 100_000]
    assert sorted(bar.get_width() for bar in shuffled.patches) == [500, 4000, 5000, 50_000]


def test_a_small_file_takes_an_open_and_a_stripe_does_not():
    large, small = stripes_picture(3).axes
    arrows = [sum(1 for text in axes.texts if not text.get_text()) for axes in (large, small)]
    assert arrows == [1 + 3, 6 + 3]
