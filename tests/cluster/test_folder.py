import pytest

from hpml.cluster import folder as rooms
from hpml.cluster.shape import Shape
from hpml.cluster.subnet import Subnet
from hpml.errors import UserError


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("HPML_HOME", str(tmp_path))
    return tmp_path


def test_what_was_planned_is_read_again():
    shape, subnet = Shape(3, 4, "100mbit"), Subnet("10.1.2.0/24")
    rooms.folder().make(shape, subnet)
    assert rooms.running_folder().plan() == (shape, subnet)


def test_without_a_cluster_the_remedy_is_to_make_one():
    with pytest.raises(UserError, match=r"no cluster is up here: \./hpml cluster up"):
        rooms.running_folder()


@pytest.mark.parametrize("text", [None, "", '{"nodes": 4', '{"nodes": 4, "cpus": 2}', "[]"])
def test_half_a_plan_is_a_user_error_with_the_remedy(home, text):
    (home / "cluster").mkdir()
    if text is not None:
        (home / "cluster" / "cluster.json").write_text(text)
    with pytest.raises(UserError, match=r"\./hpml cluster down removes it"):
        rooms.running_folder().plan()


def test_two_do_not_change_a_cluster_at_a_time():
    second = rooms.locked("./hpml cluster down")
    with (
        rooms.locked("./hpml cluster up"),
        pytest.raises(UserError, match=r"^\./hpml cluster down: another .* wait"),
        second,
    ):
        pass
    with rooms.locked("./hpml cluster down"):
        pass
