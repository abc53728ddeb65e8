import pickle

import numpy as np
import pytest

from hpml.data import load
from hpml.data.python_layout import read_batch, read_plain
from hpml.errors import UserError

from .conftest import python2_batch


def test_the_python_layout_gives_the_images_of_the_binary_one(python, binary, own_home):
    converted, direct = load(python), load(binary)
    assert converted.describe() == f"real CIFAR-10, python layout, from {python}"
    assert converted.folder.is_relative_to(own_home)
    for name in ("train", "test"):
        ours, theirs = getattr(converted, name), getattr(direct, name)
        assert np.array_equal(ours.images, theirs.images)
        assert np.array_equal(ours.labels, theirs.labels)


def test_the_conversion_is_done_once_and_again_when_the_files_change(python, replace):
    first = load(python).folder
    assert load(python).folder == first
    path = python / "test_batch"
    replace(path, path.read_bytes() + b"\0")
    assert load(python).folder != first


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_batches_read_as_plain_pickle_would_read_them(records, tmp_path):
    content = records["data_batch_1.bin"]
    plain = pickle.loads(python2_batch(content), encoding="bytes")
    assert np.array_equal(plain[b"data"], content[:, 1:])
    assert plain[b"labels"] == content[:, 0].tolist()
    (tmp_path / "two").write_bytes(python2_batch(content))
    assert np.array_equal(read_batch(tmp_path / "two"), content)


@pytest.mark.parametrize("protocol", range(2, pickle.HIGHEST_PROTOCOL))
def test_batches_written_by_python_3_are_read_too(records, tmp_path, protocol):
    content = records["data_batch_1.bin"]
    batch = {"data": content[:, 1:].copy(), "labels": content[:, 0].tolist()}
    (tmp_path / "three").write_bytes(pickle.dumps(batch, protocol=protocol))
    assert np.array_equal(read_batch(tmp_path / "three"), content)


class Calls:
    """A pickle of this calls `function` with `arguments` when it is read."""

    def __init__(self, function: object, *arguments: object):
        self.call = function, arguments

    def __reduce__(self) -> tuple:
        return self.call


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_a_hostile_pickle_is_refused_and_nothing_of_it_runs(python, replace, tmp_path, protocol):
    mark = tmp_path / "mark"
    hostile = {"data": Calls(exec, f"open({str(mark)!r}, 'w')"), "labels": []}
    replace(python / "data_batch_2", pickle.dumps(hostile, protocol=protocol))
    with pytest.raises(UserError, match=r"data_batch_2 asks to run \w+\.exec, which no image"):
        load(python)
    assert not mark.exists()
    pickle.loads(pickle.dumps(hostile, protocol=protocol))
    assert mark.exists(), "the pickle is not hostile at all"


@pytest.mark.parametrize(
    "named",
    [
        b"cos\nsystem\n",
        b"cbuiltins\ngetattr\n",
        b"cnumpy\nload\n",
        b"cnumpy\nndarray.tofile\n",
        b"chpml.data.python_layout\npickle.loads\n",
    ],
)
def test_no_other_name_is_looked_up(tmp_path, named):
    (tmp_path / "batch").write_bytes(b"\x80\x02" + named + b".")
    with pytest.raises(UserError, match="nothing of it was run"):
        read_plain(tmp_path / "batch")


@pytest.mark.parametrize(
    ("batch", "finding"),
    [
        (b"", "cannot be read"),
        (b"not a pickle", "cannot be read"),
        (pickle.dumps([1]), "has no dict in it"),
        (pickle.dumps({"labels": [0] * 100}), "has no uint8 array"),
        (pickle.dumps({"data": np.zeros((100, 3072), object)}, protocol=2), "cannot be read"),
        (pickle.dumps({"data": np.zeros((99, 3072), np.uint8)}, protocol=2), "no uint8 array"),
    ],
)
def test_a_damaged_batch_is_named(python, replace, batch, finding):
    replace(python / "data_batch_1", batch)
    with pytest.raises(UserError) as error:
        load(python)
    text = str(error.value)
    assert text.startswith(f"cifar10: {python}/data_batch_1 ")
    assert finding in text
    assert text.endswith(": delete it and run ./hpml data --layout python")
    assert "\n" not in text


def test_a_truncated_batch_is_named(python, replace):
    path = python / "test_batch"
    replace(path, path.read_bytes()[:-100])
    with pytest.raises(UserError, match=r"test_batch cannot be read"):
        load(python)


def test_a_missing_batch_is_named(python):
    (python / "data_batch_5").unlink()
    with pytest.raises(UserError, match=r"data_batch_5 is missing from .*--layout python"):
        load(python)


@pytest.mark.parametrize("label", [-1, 10, True, 3.0])
def test_a_label_that_no_class_has_is_found(records, tmp_path, label):
    labels = records["test_batch.bin"][:, 0].tolist()
    labels[77] = label
    batch = {"data": records["test_batch.bin"][:, 1:].copy(), "labels": labels}
    (tmp_path / "batch").write_bytes(pickle.dumps(batch, protocol=2))
    with pytest.raises(UserError, match=rf"has label {label} in row 77, expected 0 to 9"):
        read_batch(tmp_path / "batch")
