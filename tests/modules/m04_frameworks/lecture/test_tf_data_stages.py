"""What is counted of a tf.data pipeline, on pipelines whose counts are known."""

import pytest

from hpml.ranks import flavour, launch

WHY = flavour.missing("tensorflow")
pytestmark = [
    pytest.mark.xdist_group("tensorflow"),
    pytest.mark.skipif(WHY is not None, reason=str(WHY)),
]


def run(drive):
    evidence = launch(drive, 1, flavour="tensorflow", process_group=False, timeout=90)
    assert evidence.diagnosis is None, evidence.diagnosis.sentence
    return evidence.values[0]


def test_stages_are_counted():
    def drive():
        import tensorflow as tf

        from hpml.modules.m04_frameworks.lecture import tf_data_stages as stages

        numbers = tf.data.Dataset.range(40)
        ready = {
            kept: stages.order(numbers.map(stages.sometimes_slow, 2, deterministic=kept).batch(10))
            for kept in (True, False)
        }
        return {
            "order": stages.order(numbers.batch(7)).tolist(),
            "last": stages.made_ahead(lambda make: numbers.map(make).batch(5).prefetch(2), 5),
            "none": stages.made_ahead(lambda make: numbers.map(make).batch(5), 5),
            "kept": ready[True].tolist(),
            "free": ready[False].tolist(),
        }

    found = run(drive)
    assert found["order"] == found["kept"] == sorted(found["free"]) == list(range(40))
    assert found["free"] != found["kept"]
    assert found["last"] == 10
    assert found["none"] == 0


def test_augmented_images_are_new_and_the_course_s_images_are_not():
    def drive():
        import numpy as np
        import tensorflow as tf

        from hpml.frameworks import tf_augment
        from hpml.modules.m04_frameworks.lecture import tf_data_stages as stages

        images = stages.course_images(16)
        batch, labels = next(iter(images.batch(16)))
        shifted, kept = tf_augment.augment_batch(batch, labels)
        one, _ = tf_augment.augment(batch[0], labels[0])
        pixels = np.stack([image.numpy() for image, _ in images])
        inside = set(np.unique(batch.numpy())) >= set(
            np.rint(shifted.numpy() * 255).astype(int).flat
        )
        return {
            "plain": stages.distinct_images(images.batch(4), 2),
            "augmented": stages.distinct_images(images.map(tf_augment.augment).batch(4), 2),
            "shapes": [list(shifted.shape), list(one.shape), list(pixels.shape)],
            "labels": bool(tf.reduce_all(kept == labels)),
            "inside": inside,
            "seconds": stages.processor_seconds(images.batch(4), rounds=1),
        }

    found = run(drive)
    assert found["plain"] == 16
    assert found["augmented"] > 16
    assert found["shapes"] == [[16, 32, 32, 3], [32, 32, 3], [16, 32, 32, 3]]
    assert found["labels"]
    assert found["inside"]
    assert found["seconds"] >= 0
