"""What reading costs, as the kernel counts it: exact, and nothing of the counting in it."""

import mmap

import numpy as np
import pytest

from hpml.data.formats import FORMATS
from hpml.machine.page_cache import drop
from hpml.measure import storage
from hpml.measure.storage import cost, shuffled

COUNT = 40


@pytest.fixture(scope="module")
def images():
    return np.random.default_rng(0).integers(0, 256, (COUNT, 3, 32, 32), np.uint8)


def items(name, folder, order=None):
    reader = FORMATS[name].open(folder)
    yield from (reader if order is None else shuffled(reader, order))
    reader.close()


def test_reads_are_counted_to_the_byte(tmp_path):
    (tmp_path / "a").write_bytes(b"x" * 1000)

    def work():
        with open(tmp_path / "a", "rb", buffering=0) as file:
            while part := file.read(300):
                yield part

    taken = cost(tmp_path, work())
    assert (taken.items, taken.opens, taken.reads, taken.asked) == (4, 1, 5, 1000)


def test_looking_at_the_queue_is_not_the_works_reading(tmp_path, monkeypatch):
    for name in "abcdef":
        (tmp_path / name).write_bytes(b"x" * 100)
    monkeypatch.setattr(storage, "EVERY", 1)
    taken = cost(tmp_path, ((tmp_path / name).read_bytes() for name in "abcdef"))
    assert (taken.items, taken.opens, taken.reads, taken.asked) == (6, 6, 12, 600)


def test_no_work_costs_nothing(tmp_path):
    taken = cost(tmp_path, [])
    assert (taken.items, taken.opens, taken.reads, taken.asked, taken.fetched) == (0, 0, 0, 0, 0)


def test_pages_of_a_map_are_no_reads_but_are_fetched(disk):
    size = 50 * mmap.PAGESIZE
    (disk / "a").write_bytes(b"x" * size)
    assert drop(disk) == 0.0

    def work():
        with (
            open(disk / "a", "rb") as file,
            mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ) as mapped,
        ):
            yield sum(mapped[::4096])

    taken = cost(disk, work())
    assert (taken.opens, taken.reads, taken.asked) == (1, 0, 0)
    assert taken.fetched >= size
    assert taken.faults > 0
    assert cost(disk, work()).fetched == 0  # now it is in the cache


@pytest.mark.parametrize("name", FORMATS)
def test_small_files_are_opened_one_by_one_and_packed_ones_once(name, tmp_path, images):
    FORMATS[name].write(tmp_path / "images", images, np.zeros(COUNT, int))
    list(items(name, tmp_path / "images"))  # imports
    taken = cost(tmp_path / "images", items(name, tmp_path / "images"))
    assert taken.items == COUNT
    assert taken.opens == COUNT if name == "files" else taken.opens <= 2


def test_a_shuffled_pass_is_in_the_order_given(tmp_path, images):
    labels = np.arange(COUNT)
    FORMATS["files"].write(tmp_path / "images", images, labels)
    order = np.random.default_rng(0).permutation(COUNT).tolist()
    assert [label for _, label in items("files", tmp_path / "images", order)] == order


def test_every_format_is_read_in_each_state_and_each_order(disk, images):
    two = {name: FORMATS[name] for name in ("files", "memory map")}
    done = storage.passes(images, np.zeros(COUNT, int), {"disk": disk / "in"}, two)
    seen = [(one.format, one.place, one.order) for one in done]
    assert seen == [
        (name, place, order)
        for name in two
        for order in ("in order", "shuffled")
        for place in ("disk, cold", "disk, warm")
    ]
    assert all(one.cost.items == COUNT for one in done)
    for one in done:
        assert (one.cost.fetched > 0) == (one.place == "disk, cold")
    assert list(disk.iterdir()) == []


def test_a_place_to_keep_stays(tmp_path, images):
    one = {"files": FORMATS["files"]}
    storage.passes(images, np.zeros(COUNT, int), {"a": tmp_path / "a"}, one, keep=["a"])
    assert len(FORMATS["files"].open(tmp_path / "a" / "files")) == COUNT
