"""Facts about this machine, and about machines that lack things."""

import os
import subprocess
import sys

import pytest

from hpml import doctor
from hpml.data import cifar10
from hpml.machine import cgroup, namespaces
from hpml.network import available

FACTS = {
    "C++ compiler": doctor._compiler,
    "TensorFlow": doctor._tensorflow,
    "Horovod": doctor._horovod,
    "MPI": doctor._mpi,
    "SLURM": doctor._slurm,
    "bubblewrap": doctor._bubblewrap,
    "browser": doctor._browser,
    "links between ranks": doctor._links_between_ranks,
    "memory": doctor._memory,
    "cores": doctor._cores,
    "data": doctor._data,
}


def fact(name: str) -> doctor.Fact:
    """One fact, without looking for all the others."""
    return FACTS[name]()


@pytest.fixture
def programs(tmp_path, monkeypatch):
    """`programs(name=script)`: a PATH with these shell scripts and nothing else."""

    def only(**scripts: str) -> None:
        for name, script in scripts.items():
            path = tmp_path / name.replace("cxx", "c++")
            path.write_text(f"#!/bin/sh\n{script}\n")
            path.chmod(0o755)
        monkeypatch.setenv("PATH", str(tmp_path))

    return only


def test_a_lack_always_has_a_cost_and_a_remedy_and_nothing_else_has():
    facts = doctor.facts()
    assert len({known.name for known in facts}) == len(facts)
    assert {known.name for known in facts} >= FACTS.keys()
    assert doctor.can_run(facts)  # the course runs where its tests run
    for known in facts:
        assert known.value
        assert bool(known.cost_of_lack) == bool(known.remedy) == (not known.ok), known


def test_the_course_cannot_run_without_what_is_needed():
    here = doctor.Fact("torch", "2", True, needed=True)
    gone = doctor.Fact("torch", "none", False, "all", "get it", needed=True)
    luxury = doctor.Fact("GPUs", "none", False, "speed", "buy", needed=False)
    assert doctor.can_run([here, luxury])
    assert not doctor.can_run([here, luxury, gone])


def test_a_machine_with_no_programs_lacks_them_by_name(programs):
    programs()
    for name in ("C++ compiler", "MPI", "SLURM", "bubblewrap", "browser"):
        assert not fact(name).ok, name


def test_a_program_is_listed_with_the_first_line_of_its_version(programs):
    programs(mpirun="printf '\\nmpirun (Open MPI) 4.1.4\\nReport bugs\\n'", cxx="exit 1", bwrap=":")
    assert fact("MPI").value == "mpirun (Open MPI) 4.1.4"
    assert fact("bubblewrap").value.endswith("/bwrap")  # it prints nothing: then its path
    assert not fact("C++ compiler").ok  # is there, but does not run


def test_a_slurm_counts_only_where_a_cluster_answers(programs, tmp_path, monkeypatch):
    monkeypatch.delenv("SLURM_CONF", raising=False)
    monkeypatch.setenv("HPML_HOME", str(tmp_path))
    programs(sinfo='[ "$SLURM_CONF" ] && echo slurm 23.11')
    assert (fact("SLURM").value, fact("SLURM").ok) == ("installed, but no cluster answers", False)
    (tmp_path / "cluster").mkdir()
    (tmp_path / "cluster" / "slurm.conf").touch()
    ours = "slurm 23.11: the cluster that ./hpml cluster up made answers"
    assert (fact("SLURM").value, fact("SLURM").ok) == (ours, True)
    monkeypatch.setenv("SLURM_CONF", "chosen")
    assert fact("SLURM").value == "slurm 23.11: a cluster answers"


def test_limits_of_control_groups_count_not_the_machine(monkeypatch):
    monkeypatch.setattr(cgroup, "memory_limit", lambda: 2**30)
    monkeypatch.setattr(cgroup, "cpu_limit", lambda: 0.5)
    assert (fact("memory").value, fact("memory").ok) == ("1.0 GiB", False)
    assert fact("cores").value.startswith("0.5 usable")
    assert not fact("cores").ok


def test_usable_cores_are_those_that_this_process_is_bound_to(monkeypatch):
    if not hasattr(os, "sched_setaffinity"):
        pytest.skip("processes cannot be bound to a processor by this system")
    code = (
        "import os; from hpml.machine.resources import usable_cores\n"
        "os.sched_setaffinity(0, {min(os.sched_getaffinity(0))}); print(usable_cores() <= 1)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.stdout == "True\n", done.stderr


def test_a_refusal_of_the_kernel_is_reported_in_its_words():
    # A kind of namespace that no kernel has: refused everywhere, and by the kernel itself.
    namespaces.FLAGS["none such"] = 0x1
    try:
        assert namespaces.refusal("none such") == os.strerror(22)
    finally:
        del namespaces.FLAGS["none such"]


def test_a_user_namespace_without_its_rights_is_a_refusal(monkeypatch):
    """As on Ubuntu 24.04, where it can be made, and its maps cannot be written."""
    refused = "def open(*_):\n    raise PermissionError(1, 'Operation not permitted')\n"
    monkeypatch.setattr(namespaces, "_TRY", refused + namespaces._TRY)
    refusal = namespaces.refusal("user")
    assert refusal == "setgroups cannot be written: Operation not permitted"


def test_trying_a_namespace_leaves_this_process_where_it_is():
    before = os.readlink("/proc/self/ns/user")
    namespaces.refusal("user", "net")
    assert os.readlink("/proc/self/ns/user") == before


def test_a_trial_that_hangs_is_a_refusal(monkeypatch):
    monkeypatch.setattr(namespaces, "_TRY", "import time; time.sleep(60)")
    assert "timed out after 0.2 seconds" in namespaces.refusal("user", timeout=0.2)


def test_data_is_named_by_what_it_is(tmp_path, monkeypatch):
    monkeypatch.setenv("HPML_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("HPML_DATA", raising=False)
    assert fact("data").value == "none"

    for name in (*cifar10.TRAIN, *cifar10.TEST, cifar10.NAMES):
        (tmp_path / name).touch()
    monkeypatch.setenv("HPML_DATA", str(tmp_path))
    assert fact("data").ok
    assert fact("data").value == f"CIFAR-10, in {tmp_path}"

    (tmp_path / cifar10.SYNTHETIC).touch()
    assert not fact("data").ok
    assert fact("data").value == f"SYNTHETIC, in {tmp_path}"

    monkeypatch.setenv("HPML_DATA", str(tmp_path / "nowhere"))
    assert not fact("data").ok
    assert "nowhere" in fact("data").value


def test_a_machine_without_links_has_the_reason_and_the_remedy(monkeypatch):
    monkeypatch.setattr(available, "refusal", lambda: None)
    assert fact("links between ranks").ok
    reason = "namespaces for ordinary users are switched off ([Errno 1] Operation not permitted)"
    monkeypatch.setattr(available, "refusal", lambda: reason)
    lack = fact("links between ranks")
    assert (lack.ok, lack.value) == (False, reason)
    assert "sysctl" in lack.remedy
    monkeypatch.setattr(available, "refusal", lambda: "the kernel refuses a bridge (x)")
    assert "sysctl" not in fact("links between ranks").remedy


def test_horovod_is_listed_with_what_was_left_out_or_why_it_is_not_there(monkeypatch):
    from hpml.horovod import state

    built = state.State("key", "Gloo", "torch 2, tensorflow 2", ("without MPI, as so",), "")
    monkeypatch.setattr(state, "read", lambda: built)
    assert fact("Horovod").ok
    assert fact("Horovod").value == (
        "0.28.1 over Gloo, for torch 2, tensorflow 2; without MPI, as so"
    )
    monkeypatch.setattr(state, "read", lambda: state.State(reason="no C++ compiler: get one"))
    lack = fact("Horovod")
    assert (lack.ok, lack.needed) == (False, False)
    assert lack.value == "no C++ compiler: get one"
    assert "module 05" in lack.cost_of_lack
    assert "./hpml horovod" in lack.remedy


def test_tensorflow_without_tf_keras_is_no_tensorflow_for_horovod(monkeypatch):
    from hpml.horovod import flavour

    there = {"tensorflow-cpu": "tensorflow-cpu 2", "tensorflow": "tensorflow 2+cpu"}
    monkeypatch.setattr(flavour, "package", lambda name: there.get(name, ""))
    assert not fact("TensorFlow").ok
    assert fact("TensorFlow").value == "tensorflow-cpu 2, but no tf_keras"
    there["tf-keras"] = "tf-keras 2"
    assert fact("TensorFlow").ok
    there.clear()
    assert fact("TensorFlow").value == "none"
