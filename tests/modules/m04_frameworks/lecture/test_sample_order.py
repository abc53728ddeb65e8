"""How far shuffling moves samples, and what is drawn of it."""

from hpml.modules.m04_frameworks.lecture import sample_order

IN_ORDER = list(range(200))


def test_how_far_samples_move_and_how_many_classes_a_batch_has():
    order = [3, 0, 1, 2]
    assert sample_order.most_forward(order) == 3
    assert sample_order.most_late(order) == 1
    assert sample_order.classes_per_batch(IN_ORDER, 20) == 1
    mixed = [s * 10 % 200 + s // 20 for s in range(200)]
    assert sample_order.classes_per_batch(mixed, 20) == 10


def test_a_small_buffer_moves_samples_little():
    mixed = [s * 10 % 200 + s // 20 for s in range(200)]
    small = [*range(1, 6), *range(7, 100), 0, 6, *range(100, 200)]
    batches = [sample for first in range(180, -1, -20) for sample in range(first, first + 20)]
    found = sample_order.shuffled([mixed, small, batches], buffer=10, batch=20)
    assert (found.held, found.forward, found.late) == (True, 2, 98)
    assert (found.mixed, found.whole) == (10, 1)
    assert not sample_order.shuffled([mixed, mixed, batches], buffer=10, batch=20).held


def test_the_picture_has_a_panel_for_each_pipeline():
    figure = sample_order.picture({"shuffle": IN_ORDER, "none": IN_ORDER}, "the message")
    assert [panel.get_title() for panel in figure.axes] == ["shuffle", "none"]
    assert figure.axes[0].get_ylabel() == "place in the files"
    assert figure.get_suptitle() == "the message"
