"""What is read from /sys is what was planted there, on machines of many shapes."""

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hpml.errors import UserError
from hpml.machine import topology
from hpml.machine.topology import Cache, Core, Gpu, cpu_list, cpus_of, made, read


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"{text}\n")


def plant(root: Path, machine: topology.Topology, *, without: str = "") -> Path:
    """The files that Linux shows on such a machine; `without` "numa" or "topology" those of a
    virtual machine that leaves them out."""
    system = root / "sys/devices/system"
    write(system / "cpu/online", cpu_list(machine.cpus))
    write(
        root / "proc/self/status", f"Name:\tpython\nCpus_allowed_list:\t{cpu_list(machine.allowed)}"
    )
    for core in machine.cores:
        for cpu in core.cpus:
            if without != "topology":
                write(system / f"cpu/cpu{cpu}/topology/core_cpus_list", cpu_list(core.cpus))
                write(system / f"cpu/cpu{cpu}/topology/physical_package_id", str(core.socket))
            for number, cache in enumerate(one for one in machine.caches if cpu in one.cpus):
                index = system / f"cpu/cpu{cpu}/cache/index{number}"
                write(index / "level", str(cache.level))
                write(index / "type", cache.kind)
                write(index / "size", f"{cache.nbytes // 1024}K")
                write(index / "shared_cpu_list", cpu_list(cache.cpus))
    for node in machine.numa_nodes if without != "numa" else ():
        cpus = [cpu for core in machine.in_numa(node) for cpu in core.cpus]
        write(system / f"node/node{node}/cpulist", cpu_list(cpus))
        memory = (machine.memory or {}).get(node)
        if memory:
            write(system / f"node/node{node}/meminfo", f"Node {node} MemTotal: {memory // 1024} kB")
    for gpu in machine.gpus:
        device = root / "sys/bus/pci/devices" / gpu.address
        write(device / "vendor", "0x10de")
        write(device / "class", "0x030200")
        write(device / "numa_node", str(-1 if gpu.numa is None else gpu.numa))
    return root


NODES = {
    "2 sockets of 64 cores": made(2, 64, memory=2**30, l3=2**25, l3_cores=8),
    "with hardware threads": made(2, 64, threads=2, memory=2**30),
    "hardware threads side by side": made(2, 64, threads=2, consecutive=True),
    "four NUMA nodes in each socket": made(2, 64, threads=2, numa=4, gpus=[3, 1, 7, 5]),
    "one core": made(1, 1),
}


@pytest.mark.parametrize("name", NODES)
def test_a_planted_machine_is_read_as_it_is(tmp_path, name):
    assert read(plant(tmp_path, NODES[name])) == replace(
        NODES[name], memory=NODES[name].memory or {}
    )


def test_hardware_threads_are_not_cores(tmp_path):
    machine = read(plant(tmp_path, made(2, 64, threads=2)))
    assert (len(machine.cores), len(machine.cpus)) == (128, 256)
    assert machine.cores[1].cpus == (1, 129)
    assert machine.cores[64] == Core(socket=1, numa=1, cpus=(64, 192))


def test_four_numa_nodes_in_each_socket(tmp_path):
    machine = read(plant(tmp_path, made(2, 64, threads=2, numa=4)))
    assert (len(machine.sockets), machine.numa_nodes) == (2, tuple(range(8)))
    assert [core.cpus[0] for core in machine.in_numa(1)] == list(range(16, 32))


def test_cores_that_are_switched_off_are_not_there(tmp_path):
    root = plant(tmp_path, made(1, 4, threads=2, l3=2**20, l3_cores=4))
    write(root / "sys/devices/system/cpu/online", "0-2,4-5,7")  # core 3 has one thread, 2 another
    machine = read(root)
    assert [core.cpus for core in machine.cores] == [(0, 4), (1, 5), (2,), (7,)]
    assert machine.caches == (Cache(3, "Unified", 2**20, (0, 1, 2, 4, 5, 7)),)


def test_a_control_group_leaves_some_of_the_cpus(tmp_path):
    machine = read(plant(tmp_path, replace(made(2, 4, threads=2), allowed=(1, 2, 6))))
    assert machine.allowed == (1, 2, 6)
    assert len(machine.cores) == 8
    usable = machine.usable()
    assert [core.cpus for core in usable.cores] == [(1,), (2,), (6,)]
    assert usable.sockets == (0, 1)
    assert machine.sentence().endswith("; this process may use CPUs 1-2,6")
    assert "may use" not in usable.sentence()


@pytest.mark.parametrize("without", ["numa", "topology"])
def test_what_a_virtual_machine_leaves_out_is_taken_as_plainly_as_can_be(tmp_path, without):
    machine = read(plant(tmp_path, made(1, 4), without=without))
    assert machine.cores == tuple(Core(0, 0, (cpu,)) for cpu in range(4))
    assert (machine.sockets, machine.numa_nodes) == ((0,), (0,))


def test_a_socket_of_no_number_is_socket_0(tmp_path):
    root = plant(tmp_path, made(1, 1))
    write(root / "sys/devices/system/cpu/cpu0/topology/physical_package_id", "-1")
    assert read(root).sockets == (0,)


def test_the_list_of_hardware_threads_has_another_name_in_older_kernels(tmp_path):
    root = plant(tmp_path, made(1, 2, threads=2))
    for path in root.glob("sys/devices/system/cpu/cpu*/topology/core_cpus_list"):
        path.rename(path.with_name("thread_siblings_list"))
    assert [core.cpus for core in read(root).cores] == [(0, 2), (1, 3)]


def test_memory_without_cores_is_no_numa_node_of_cores(tmp_path):
    root = plant(tmp_path, made(1, 2, memory=2**30))
    write(root / "sys/devices/system/node/node1/cpulist", "")
    write(root / "sys/devices/system/node/node1/meminfo", "Node 1 MemTotal: 1024 kB")
    assert read(root).memory == {0: 2**30}


def test_gpus_are_those_that_compute(tmp_path):
    root = plant(tmp_path, made(2, 2, gpus=[1, None]))
    devices = {"0000:02:00.0": ("0x1a03", "0x030000"), "0000:81:00.0": ("0x1002", "0x120000"),
               "0000:01:00.1": ("0x10de", "0x040300")}  # fmt: skip
    for address, (vendor, kind) in devices.items():  # the console's, an AMD Instinct, a GPU's sound
        write(root / "sys/bus/pci/devices" / address / "vendor", vendor)
        write(root / "sys/bus/pci/devices" / address / "class", kind)
        write(root / "sys/bus/pci/devices" / address / "numa_node", "0")
    assert read(root).gpus == (
        Gpu("0000:01:00.0", 1),
        Gpu("0000:11:00.0", None),
        Gpu("0000:81:00.0", 0),
    )


def test_no_linux_is_an_error_with_a_remedy(tmp_path):
    with pytest.raises(UserError, match="no CPU is listed"):
        read(tmp_path)


def test_this_machine_has_a_core_for_every_cpu_that_this_process_may_use():
    here = read()
    assert set(here.allowed) <= set(here.cpus)
    assert here.usable().cpus == here.allowed


@given(st.sets(st.integers(0, 300)))
def test_a_list_reads_back(cpus):
    assert cpus_of(cpu_list(cpus)) == tuple(sorted(cpus))


def test_a_list_is_short():
    assert cpu_list([8, 0, 2, 1, 2]) == "0-2,8"
    assert cpus_of("0-2,8\n") == (0, 1, 2, 8)
    with pytest.raises(ValueError, match="invalid literal"):
        cpus_of("all")


def test_cores_that_do_not_divide_are_refused():
    with pytest.raises(ValueError, match="6 cores do not divide by 4"):
        made(2, 6, numa=4)


def test_a_sentence_says_it():
    assert made(1, 1).sentence() == (
        "1 core with 1 hardware thread each, in 1 socket and 1 NUMA node"
    )
    assert made(2, 64, threads=2, numa=4, gpus=[0]).sentence() == (
        "128 cores with 2 hardware threads each, in 2 sockets and 8 NUMA nodes, and 1 GPU"
    )
