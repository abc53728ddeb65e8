"""Each launcher's environment gives the right place, and a wrong one is refused in one line."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hpml.distributed_environment import (
    FIRST_PORT,
    PORTS,
    ProcessInfo,
    expand_hosts,
    job_port,
    read,
)
from hpml.errors import UserError

TORCHRUN = {
    "RANK": "5",
    "WORLD_SIZE": "8",
    "LOCAL_RANK": "1",
    "MASTER_ADDR": "node7",
    "MASTER_PORT": "29511",
}
SLURM = {
    "SLURM_JOB_ID": "4711",
    "SLURM_STEP_ID": "0",
    "SLURM_PROCID": "2",
    "SLURM_NTASKS": "3",
    "SLURM_LOCALID": "0",
    "SLURM_JOB_NODELIST": "gpu[08-10,12],login1",
}


def test_torchrun_is_read():
    assert read(TORCHRUN) == ProcessInfo(5, 8, 1, "node7", 29511, "torchrun")


def test_srun_is_read_and_rank_0_is_on_the_first_host():
    place = read(SLURM)
    assert (place.rank, place.world_size, place.local_rank) == (2, 3, 0)
    assert place.address == "gpu08"
    assert place.launcher == "srun"


HOROVODRUN = {"HOROVOD_RANK": "3", "HOROVOD_SIZE": "4", "HOROVOD_LOCAL_RANK": "1"}
MPIRUN = {
    "OMPI_COMM_WORLD_RANK": "1",
    "OMPI_COMM_WORLD_SIZE": "2",
    "OMPI_COMM_WORLD_LOCAL_RANK": "1",
}


@pytest.mark.parametrize("own", [TORCHRUN, HOROVODRUN, MPIRUN])
def test_other_launchers_inside_a_slurm_job_win(own):
    assert read(SLURM | own) == read(own)


def test_horovodrun_and_mpirun_are_read():
    assert read(HOROVODRUN) == ProcessInfo(3, 4, 1, launcher="horovodrun")
    assert read(MPIRUN) == ProcessInfo(1, 2, 1, launcher="mpirun")
    with pytest.raises(UserError, match="HOROVOD_SIZE is not set"):
        read({"HOROVOD_RANK": "0"})


MPIEXEC = {"PMI_RANK": "3", "PMI_SIZE": "4", "MPI_LOCALRANKID": "1"}
JSRUN = {
    "JSM_NAMESPACE_RANK": "3",
    "JSM_NAMESPACE_SIZE": "4",
    "JSM_NAMESPACE_LOCAL_RANK": "1",
}
FLUX = {"FLUX_TASK_RANK": "3", "FLUX_JOB_SIZE": "4", "FLUX_TASK_LOCAL_ID": "1"}
MEET = {"MASTER_ADDR": "node7", "MASTER_PORT": "29511"}


@pytest.mark.parametrize(
    ("launcher", "own"), [("mpiexec", MPIEXEC), ("jsrun", JSRUN), ("flux", FLUX)]
)
def test_launchers_without_an_address_take_it_from_the_environment_and_ask_for_it(launcher, own):
    assert read(own | MEET) == ProcessInfo(3, 4, 1, "node7", 29511, launcher)
    assert read(SLURM | own | MEET) == read(own | MEET)
    with pytest.raises(UserError, match=f"{launcher} starts 4 ranks and does not say where"):
        read(own)


def test_mpiexec_of_one_rank_needs_no_address():
    assert read({"PMI_RANK": "0", "PMI_SIZE": "1"}) == ProcessInfo(launcher="mpiexec")


def test_what_srun_sets_for_mpi_is_still_srun():
    assert read(SLURM | {"PMI_RANK": "2", "PMI_SIZE": "3"}) == read(SLURM)


def test_rank_exported_in_the_batch_script_is_refused_where_tasks_are_the_ranks():
    step = SLURM | {"SLURM_STEP_NUM_TASKS": "3"}
    exported = MEET | {"RANK": "0", "WORLD_SIZE": "3", "LOCAL_RANK": "0"}
    with pytest.raises(UserError, match="RANK is '0', and srun says that this is rank 2 of 3"):
        read(step | exported)
    assert read(step | exported | {"RANK": "2"}).rank == 2  # export RANK=$SLURM_PROCID, by task
    assert read(step | exported | {"WORLD_SIZE": "6", "RANK": "5"}).rank == 5  # started by a task
    assert read(step | exported | {"TORCHELASTIC_RUN_ID": "none"}).rank == 0  # one on each node


def test_a_step_on_part_of_the_job_counts_its_own_tasks_and_hosts():
    part = {"SLURM_STEP_NUM_TASKS": "4", "SLURM_STEP_NODELIST": "gpu12"}
    place = read(SLURM | part)
    assert (place.world_size, place.address) == (4, "gpu12")


def test_plain_python_in_a_batch_script_is_alone():
    batch = {name: value for name, value in SLURM.items() if name != "SLURM_STEP_ID"}
    assert read(batch | {"SLURM_PROCID": "0"}) == ProcessInfo()


def test_without_a_launcher_a_process_is_alone():
    assert read({}) == ProcessInfo(rank=0, world_size=1)


def test_the_port_is_the_same_for_all_tasks_and_another_for_the_next_job():
    ports = {read(SLURM | {"SLURM_PROCID": str(rank)}).port for rank in range(3)}
    assert ports == {job_port(4711, 0)}
    assert job_port(4712, 0) not in ports
    assert job_port(4711, 1) not in ports


@given(st.integers(0, 2**31), st.integers(0, 1000))
def test_ports_are_ones_that_an_ordinary_user_may_open(job, step):
    assert FIRST_PORT <= job_port(job, step) < FIRST_PORT + PORTS < 32768


@pytest.mark.parametrize(
    ("hosts", "expanded"),
    [
        ("solo", ["solo"]),
        ("a,b", ["a", "b"]),
        ("n[1-3]", ["n1", "n2", "n3"]),
        ("node[08-10]", ["node08", "node09", "node10"]),
        ("n[1,3-4],gpu-2", ["n1", "n3", "n4", "gpu-2"]),
        ("r[1-2]n[1-2]x", ["r1n1x", "r1n2x", "r2n1x", "r2n2x"]),
    ],
)
def test_host_lists_expand(hosts, expanded):
    assert expand_hosts(hosts) == expanded


@pytest.mark.parametrize("hosts", ["", "n[1-", "n1-3]", "n[3-1]", "n[a]", "a,,b", "n[]"])
def test_what_is_no_host_list_is_refused(hosts):
    with pytest.raises(UserError, match="host list"):
        expand_hosts(hosts)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"RANK": "two"}, "RANK is 'two', expected a whole number"),
        ({"RANK": "8"}, "rank 8 of 8 ranks"),
        ({"MASTER_ADDR": ""}, "MASTER_ADDR is not set"),
        ({"MASTER_PORT": "-1"}, "MASTER_PORT is '-1'"),
        ({"MASTER_PORT": "0"}, "MASTER_PORT is 0, expected a port"),
        ({"MASTER_PORT": "70000"}, "MASTER_PORT is 70000, expected a port"),
        ({"MASTER_ADDR": "n[01-02]"}, "expected one node: name the first, n01"),
        ({"MASTER_ADDR": "n[01"}, "expected one node: name one node"),
    ],
)
def test_a_wrong_environment_is_refused_in_one_line(change, message):
    with pytest.raises(UserError) as refused:
        read(TORCHRUN | change)
    assert message in str(refused.value)
    assert "\n" not in str(refused.value)
