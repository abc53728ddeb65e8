"""The configuration files of SLURM. What each setting means: slurm.conf(5)."""

import secrets
from pathlib import Path

from hpml.cluster.shape import HEAD, Shape
from hpml.cluster.subnet import Subnet, addresses

CONTROLLER_PORT = 6817  # on the head's own address, where no other program listens
GPU = "/tmp/gpu"  # and its number
SPOOL = "/tmp/slurmd"  # each node has its own /tmp; sockets lie here, whose paths must be short


def slurm_conf(folder: Path, shape: Shape, subnet: Subnet, memory: int) -> str:
    """slurm.conf of a cluster that keeps its files in `folder`; nodes of `memory` MiB each."""
    where = addresses(subnet, shape)
    per_cpu = memory // shape.cpus
    types, gres = ("GresTypes=gpu\n", f" Gres=gpu:{shape.gpus}") if shape.gpus else ("", "")
    nodes = "\n".join(
        f"NodeName={name} NodeHostname={name} NodeAddr={where[name]} State=UNKNOWN"
        for name in shape.names
    )
    return f"""\
ClusterName=hpml
SlurmctldHost={HEAD}({where[HEAD]})
SlurmctldPort={CONTROLLER_PORT}
SlurmUser=root

# A munged of its own: the machine's, if any, is left alone. A credential lives for ten seconds,
# because a requeued job waits for as long before it starts again.
AuthType=auth/munge
CredType=cred/munge
AuthInfo=socket={folder}/munge/socket,cred_expire=10

StateSaveLocation={folder}/slurmctld
SlurmctldPidFile={folder}/slurmctld/pid
SlurmdSpoolDir={SPOOL}
SlurmdPidFile={SPOOL}.pid
SlurmctldDebug=info
SlurmdDebug=info

# Processes are found by their parents, not by control groups: containers often have none to give.
ProctrackType=proctrack/linuxproc

# Tasks are bound to CPUs where srun's --cpu-bind asks for it, and not unasked: all nodes share the
# machine's CPUs, and one that declares 8 of them on a machine with 2 has none to bind tasks to.
TaskPlugin=task/affinity
TaskPluginParam=none
JobAcctGatherType=jobacct_gather/linux
JobAcctGatherFrequency=5
SwitchType=switch/none
MpiDefault=none

# Not from 1 in each cluster: a job keeps its checkpoint in a folder of its number, and would carry
# on from that of another cluster's job.
FirstJobId={1 + 1000 * secrets.randbelow(60_000)}
SlurmdParameters=config_overrides

SelectType=select/cons_tres
SelectTypeParameters=CR_CPU_Memory
DefMemPerCPU={per_cpu}
SchedulerType=sched/backfill
SchedulerParameters=batch_sched_delay=0,bf_interval=2,sched_interval=5

# A node that does not answer is down after 20 s, and up again as soon as it answers.
SlurmdTimeout=20
SlurmctldTimeout=20
# All nodes and their jobs share one machine: where it is busy, an answer may take longer than the
# ten seconds after which a command would give up.
MessageTimeout=60
ReturnToService=2
InactiveLimit=0
KillWait=10
MinJobAge=3600

# Without a database server sacct has no data; a line for each finished job goes to this file.
JobCompType=jobcomp/filetxt
JobCompLoc={folder}/jobs.txt

{types}NodeName=DEFAULT CPUs={shape.cpus} Boards=1 SocketsPerBoard=1 CoresPerSocket={shape.cpus} \
ThreadsPerCore=1 RealMemory={memory}{gres}
{nodes}
PartitionName=course Nodes={shape.host_list} Default=YES MaxTime=INFINITE State=UP
"""


def gres_conf(shape: Shape) -> str:
    """gres.conf: GPUs that do not exist, numbered by files that do.

    slurmd gives a job CUDA_VISIBLE_DEVICES where each GPU has a file, which must be a device. It
    does not open them.
    """
    return "".join(f"Name=gpu File={GPU}{number}\n" for number in range(shape.gpus))


def cgroup_conf(version: tuple[int, ...]) -> str:
    """cgroup.conf for SLURM of that version, such that slurmd makes no control groups.

    Before 23.11 there is no "disabled", and cgroup/v1 does nothing before it is asked to.
    """
    return f"CgroupPlugin={'disabled' if version >= (23, 11) else 'cgroup/v1'}\n"
