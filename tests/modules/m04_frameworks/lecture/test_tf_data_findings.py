"""What the lecture concludes from a tf.data pipeline's counts, and when it does not."""

import numpy as np

from hpml.modules.m04_frameworks.lecture import tf_data_findings as findings
from hpml.modules.m04_frameworks.lecture.shuffle_picture import shuffle_picture

IN_ORDER = list(range(200))


def reversed_batches(size):
    return [
        sample for first in range(200 - size, -1, -size) for sample in range(first, first + size)
    ]


def test_a_cache_after_the_augmentation_freezes_it():
    held, sentence, _ = findings.frozen({"before": 1_930, "after": 400}, images=400, epochs=5)
    assert held
    assert "1,930" in sentence
    assert not findings.frozen({"before": 1_930, "after": 800}, images=400, epochs=5)[0]
    assert not findings.frozen({"before": 400, "after": 400}, images=400, epochs=5)[0]


def test_how_far_samples_move_and_how_many_classes_a_batch_has():
    order = [3, 0, 1, 2]
    assert findings.most_forward(order) == 3
    assert findings.most_late(order) == 1
    assert findings.classes_per_batch(IN_ORDER, 20) == 1
    assert findings.classes_per_batch([s * 10 % 200 + s // 20 for s in range(200)], 20) == 10


def test_a_small_buffer_moves_samples_little():
    draw = np.random.default_rng(0)
    full = draw.permutation(200)
    small = [*range(1, 6), *range(7, 100), 0, 6, *range(100, 200)]
    batches = reversed_batches(20)
    held, sentence, otherwise = findings.shuffled(
        {"full": full, "small": small, "batches": batches}, buffer=10, batch=20
    )
    assert held
    assert "2 places" in sentence
    assert "2 early" not in otherwise
    same = {"full": full, "small": full, "batches": batches}
    assert not findings.shuffled(same, buffer=10, batch=20)[0]


def test_repeat_before_shuffle_mixes_epochs():
    right, wrong = [*IN_ORDER, *IN_ORDER], [0, 0, *IN_ORDER[1:], *IN_ORDER[1:]]
    held, sentence, _ = findings.mixed_epochs({"right": right, "wrong": wrong}, samples=200)
    assert held
    assert "199 different" in sentence
    assert not findings.mixed_epochs({"right": right, "wrong": right}, samples=200)[0]


def test_prefetch_makes_batches_ahead_only_at_the_end():
    held, sentence, _ = findings.ahead({"last": 100, "first": 2, "none": 0}, batch=50)
    assert held
    assert "100 more images" in sentence
    assert not findings.ahead({"last": 30, "first": 2, "none": 0}, batch=50)[0]


def test_a_batch_at_a_time_starts_fewer_operators():
    held, sentence, _ = findings.at_once({"single": 0.05, "batched": 0.01}, images=1_000)
    assert held
    assert "50 µs" in sentence
    assert "5.0 times" in sentence
    assert not findings.at_once({"single": 0.011, "batched": 0.01}, images=1_000)[0]


def test_results_as_ready_come_at_other_places():
    free = [1, 0, *IN_ORDER[2:]]
    held, sentence, _ = findings.in_order({"True": IN_ORDER, "False": free})
    assert held
    assert "2 of 200" in sentence
    assert not findings.in_order({"True": IN_ORDER, "False": IN_ORDER})[0]
    assert not findings.in_order({"True": free, "False": free})[0]


def test_the_picture_has_a_panel_for_each_pipeline():
    figure = shuffle_picture({"shuffle": IN_ORDER, "none": IN_ORDER}, "the message")
    assert [panel.get_title() for panel in figure.axes] == ["shuffle", "none"]
    assert figure.axes[0].get_ylabel() == "place in the files"
    assert figure.get_suptitle() == "the message"
