import pickle

import numpy as np
import pytest

from hpml.data import CLASSES, find, load, synthetic
from hpml.data.cifar10 import BINARY, TRAIN
from hpml.errors import UserError

from .conftest import OFFICIAL


def one_line(error: pytest.ExceptionInfo) -> str:
    text = str(error.value)
    assert "\n" not in text
    return text


def test_real_images_are_mapped_in_file_order(binary, records):
    data = load(binary)
    assert data.describe() == f"real CIFAR-10, binary layout, from {binary}"
    assert not data.synthetic
    assert data.classes == CLASSES
    assert data.train.images.shape == (500, 3, 32, 32)
    assert data.test.images.shape == (100, 3, 32, 32)
    third = records["data_batch_3.bin"]
    assert np.array_equal(data.train.images[207], third[7, 1:].reshape(3, 32, 32))
    assert np.array_equal(data.train.labels[200:300], third[:, 0])
    assert np.array_equal(data.test.labels, records["test_batch.bin"][:, 0])


def test_a_batch_from_all_files_is_gathered_in_its_order(binary, records):
    images = load(binary).train.images
    pixels = np.concatenate([records[name][:, 1:] for name in TRAIN]).reshape(-1, 3, 32, 32)
    index = np.random.default_rng(1).integers(-500, 500, 2000)
    index[:4] = 0, 499, -1, -500
    assert np.array_equal(images[index], pixels[index])
    assert np.array_equal(images[::-7], pixels[::-7])
    mask = np.arange(500) % 3 == 0
    assert np.array_equal(images[mask], pixels[mask])
    assert images[[]].shape == (0, 3, 32, 32)


@pytest.mark.parametrize("index", [500, -501, [0, 500], [0.5], [[0]], np.ones(499, bool)])
def test_what_is_no_image_s_index_is_refused(binary, index):
    with pytest.raises(IndexError):
        load(binary).train.images[index]


def test_images_go_to_another_process_by_the_names_of_their_files(binary):
    images = load(binary).train.images
    sent = pickle.dumps(images)
    assert len(sent) < 10_000
    assert np.array_equal(pickle.loads(sent)[[0, 499]], images[[0, 499]])


def test_asked_for_comes_before_the_environment_and_that_before_home(
    binary, whole, own_home, monkeypatch
):
    assert find() is None
    (own_home / "data").mkdir()
    (own_home / "data" / BINARY).symlink_to(whole)
    assert find() == own_home / "data" / BINARY
    monkeypatch.setenv("HPML_DATA", str(whole))
    assert find() == whole
    assert find(binary.parent) == binary
    assert load(str(binary.parent)).folder == binary


def test_nothing_anywhere_gives_the_synthetic_set_marked_as_such(own_home):
    data = load()
    assert data.synthetic
    assert data.describe().startswith("SYNTHETIC")
    again = load(own_home / "data" / "synthetic")
    assert again.synthetic
    assert again.describe().startswith("SYNTHETIC")


@pytest.mark.parametrize("asked", ["--data", "HPML_DATA"])
def test_a_folder_asked_for_must_have_the_images(asked, tmp_path, monkeypatch):
    (tmp_path / "empty").mkdir()
    (tmp_path / "file").write_text("")
    for name, finding in {
        "gone": "does not exist",
        "empty": "has no CIFAR-10 files",
        "file": "is not a folder",
    }.items():
        path = tmp_path / name
        monkeypatch.setenv("HPML_DATA", str(path))
        with pytest.raises(UserError) as error:
            load(path if asked == "--data" else None)
        assert one_line(error).startswith(f"cifar10: {asked} {path} {finding}: ")


@pytest.mark.parametrize(("change", "size"), [(-1, 307_299), (1, 307_301)])
def test_a_truncated_or_oversized_file_is_named_with_both_sizes(
    binary, records, replace, change, size
):
    content = records["data_batch_3.bin"].tobytes()
    replace(binary / "data_batch_3.bin", content[:-1] if change < 0 else content + b"x")
    with pytest.raises(UserError) as error:
        load(binary)
    assert one_line(error) == (
        f"cifar10: {binary}/data_batch_3.bin is {size} bytes, expected 307300: "
        "delete it and run ./hpml data"
    )


def test_a_misnamed_file_is_found_out(binary):
    (binary / "data_batch_4.bin").rename(binary / "data_batch_4 (1).bin")
    with pytest.raises(UserError) as error:
        load(binary)
    assert one_line(error) == (
        f"cifar10: data_batch_4.bin is missing from {binary}: "
        "rename data_batch_4 (1).bin if that is it, or run ./hpml data"
    )


def test_a_label_that_no_class_has_is_found(binary, records, replace):
    content = records["data_batch_2.bin"].copy()
    content[23, 0] = 10
    replace(binary / "data_batch_2.bin", content.tobytes())
    with pytest.raises(UserError, match=r"data_batch_2\.bin has label 10 in record 23, expected 0"):
        load(binary)


@pytest.mark.parametrize("name", ["data_batch_5.bin", "test_batch.bin"])
def test_a_hole_of_zeros_is_found_by_the_counts(binary, records, replace, name):
    content = records[name].copy()
    content[50:60] = 0
    replace(binary / name, content.tobytes())
    with pytest.raises(UserError, match=r"images of class 0, expected [15]0: delete it"):
        load(binary)


@pytest.mark.parametrize(
    ("names", "finding"),
    [
        (None, "batches.meta.txt is missing from"),
        ("cat dog", "holds 2 class names, expected 10"),
        ("\xff", "holds 0 class names"),
        ("a b c d e f g h i j", "names a b c d e f g h i j, expected airplane"),
    ],
)
def test_class_names_are_checked(binary, replace, names, finding):
    (binary / "batches.meta.txt").unlink()
    if names is not None:
        replace(binary / "batches.meta.txt", names.encode("latin1"))
    with pytest.raises(UserError) as error:
        load(binary)
    assert finding in one_line(error)


def test_damaged_images_in_home_are_not_passed_over_for_synthetic_ones(binary, own_home):
    (binary / "test_batch.bin").unlink()
    own_home.mkdir()
    binary.parent.rename(own_home / "data")
    with pytest.raises(UserError, match=r"test_batch\.bin is missing"):
        load()


def test_a_home_that_cannot_be_written_is_named(own_home):
    own_home.mkdir()
    (own_home / "data").write_text("in the way")
    with pytest.raises(UserError, match=r"synthetic.* cannot be written .*HPML_HOME"):
        load()
    (own_home / "data").unlink()


def test_what_breaks_half_way_leaves_no_half_folder(own_home, monkeypatch):
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(synthetic, "write_sums", full)
    with pytest.raises(UserError, match=r"\(No space left on device\): make room"):
        load()
    assert list((own_home / "data" / "synthetic").iterdir()) == []


def test_outside_these_tests_a_file_has_its_official_size():
    assert OFFICIAL == 30_730_000
