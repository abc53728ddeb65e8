import os
import subprocess

import pytest

from hpml.cluster.process import Process, read_pid_file, write_pid_file


@pytest.fixture
def outside():
    descriptor = os.open("/proc", os.O_RDONLY)
    yield descriptor
    os.close(descriptor)


@pytest.fixture
def sleeper(tmp_path, outside):
    process = subprocess.Popen(
        ["sleep", "60"],
        preexec_fn=lambda: write_pid_file(tmp_path / "sleeper", outside),
        pass_fds=[outside],
    )
    yield tmp_path / "sleeper"
    process.kill()
    process.wait()


def test_a_process_that_wrote_its_pid_file_is_found(tmp_path, outside):
    write_pid_file(tmp_path / "me", outside)
    me = read_pid_file(tmp_path / "me")
    assert me.pid == os.getpid()
    assert me.alive


def test_there_is_no_process_where_there_is_no_file(tmp_path):
    assert read_pid_file(tmp_path / "nobody") is None


def test_another_process_of_the_same_number_is_not_taken_for_it(tmp_path, outside):
    write_pid_file(tmp_path / "me", outside)
    me = read_pid_file(tmp_path / "me")
    assert not Process(me.pid, me.started + 1).alive
    assert Process(me.pid, me.started + 1).kill()  # and is not hurt: this line is reached


def test_a_killed_process_is_gone_a_zombie_too(sleeper):
    process = read_pid_file(sleeper)
    assert process.alive
    assert process.kill()
    assert not process.alive
