# shellcheck shell=bash
# Everything about your cluster that the job scripts need to know: the only file here that you edit.
# As it stands it suits a SLURM that wants no account and has one default partition.
#
#     sbatch slurm/00_hello.slurm                          # where the defaults below are enough
#     source slurm/site.sh && submit slurm/00_hello.slurm  # with what you filled in below
#     ./hpml site check                                    # does your cluster take all of it?
#
# Submit from the project's root folder, which all nodes must see (home, project or scratch).
# Every job script sources this file as its first act, so part 2 also holds on the nodes.

# ── 1. What sbatch has to be told here ───────────────────────────────────────────────────────────
# Leave empty what your cluster does not ask for. `sacctmgr show associations user=$USER` lists
# your accounts, `sinfo` the partitions, `sinfo -o "%P %G %f"` their GPUs and features.
account=         # who pays
gpu_account=     # who pays for GPUs, where that is another one
qos=             # quality of service, where a job has to name one
gpu_qos=         # the same for jobs with GPUs
reservation=     # the course's own nodes, where there are such
hint=            # nomultithread, where each core counts as two CPUs
cpu_partition=   # for jobs without GPUs
cpu_constraint=  # a node feature to insist on
gpu_partition=   # for the job scripts that end in _gpu.slurm
gpu_constraint=
gpus_per_node=   # where GPUs are asked for by type: a100:4, say; 0 asks for none
gpu_gres=        # where they are asked for by --gres: gpu:a100:4, say

# ── 2. Where the software comes from ─────────────────────────────────────────────────────────────
# venv       Modules that the site offers, and the .venv that ./hpml makes in the project's folder:
#                software=venv   modules=(python/3.11)
#            Load the same modules before the first ./hpml, which makes .venv with their Python.
# conda      An environment made once with `conda env create -f environment.yml`:
#                software=conda   modules=(miniforge3)   conda_environment=hpml
#            No modules where `conda` is already there in a job.
# container  An image with Python and this project's requirements.lock in it, in a folder that all
#            nodes see; the project itself is taken from its folder:
#                software=container   container_program=singularity   container_image=hpml.sif
#            No modules where the program is already there in a job.
software=venv
modules=()               # for example (python/3.11 cuda/12.8); loaded first, whichever kind it is
conda_environment=hpml   # name or folder
container_program=apptainer
container_options=(--nv) # GPU drivers into it; --rocm for AMD's, () for none
container_image=         # for example hpml.sif
container_command=()     # of another program, whole: (shifter --image=docker:hpml), say

# ── 3. Network and data ──────────────────────────────────────────────────────────────────────────
network_interface=       # the fast one, for example ib0, where ranks choose a slow one or none
data=                    # folder with CIFAR-10 that all nodes see; empty: what ./hpml data fetched
node_disk=               # a folder of each node's own, for copies; empty: $TMPDIR, else /tmp
exports=()               # for all ranks: (NCCL_NET_PLUGIN=ofi FI_PROVIDER=cxi), say

# ── Nothing below needs an edit ──────────────────────────────────────────────────────────────────

# sbatch_settings JOB.slurm: what part 1 says for that kind of job, as sbatch reads it from its
# environment. SBATCH_* count more than #SBATCH lines and less than sbatch's own options.
sbatch_settings() {
    local partition=$cpu_partition constraint=$cpu_constraint gpus='' gres='' pays=$account
    local quality=$qos
    if [[ $1 == *_gpu.slurm ]]; then
        partition=$gpu_partition constraint=$gpu_constraint gpus=$gpus_per_node gres=$gpu_gres
        pays=${gpu_account:-$account} quality=${gpu_qos:-$qos}
        gpus=${gpus:-${gres:+0}} # the scripts' own line asks for --gpus-per-node
    fi
    local settings=(
        ${pays:+SBATCH_ACCOUNT="$pays"}
        ${quality:+SBATCH_QOS="$quality"}
        ${hint:+SBATCH_HINT="$hint"}
        ${reservation:+SBATCH_RESERVATION="$reservation"}
        ${partition:+SBATCH_PARTITION="$partition"}
        ${constraint:+SBATCH_CONSTRAINT="$constraint"}
        ${gpus:+SBATCH_GPUS_PER_NODE="$gpus"}
        ${gres:+SBATCH_GRES="$gres"}
    )
    if ((${#settings[@]})); then printf '%s\n' "${settings[@]}"; fi
}

# submit [OPTION…] JOB.slurm [ARGUMENT…]: sbatch, with those settings.
submit() {
    local job settings
    for job; do
        if [[ $job == *.slurm ]]; then break; fi
    done
    mapfile -t settings < <(sbatch_settings "$job")
    env "${settings[@]}" sbatch "$@"
}

no_software() {
    echo "slurm/site.sh: $*" >&2
    return 2
}

has_project() {
    python -c 'import sys, importlib.util as u
sys.exit(not (u.find_spec("torch") and u.find_spec("hpml")))' 2>/dev/null
}

# prepare_software: makes `python` the right one. `container` goes between srun and python: empty
# unless the software is in one.
# shellcheck disable=SC2034  # the job scripts use it
container=()
prepare_software() {
    export PYTHONNOUSERSITE=1 # what is pinned is what runs, whatever the home folder has
    if ((${#modules[@]})); then
        module purge
        # `|| return` below switches off `set -e` in here, so each failure is looked at.
        module load "${modules[@]}" || no_software "module load ${modules[*]} failed" || return
    fi
    case $software in
    venv)
        # An environment that was active at submission comes with the job. It stays where the
        # project is installed in it; conda's base and other projects' give way to .venv.
        if ! has_project && [[ -f .venv/bin/activate ]]; then
            # shellcheck source=/dev/null
            source .venv/bin/activate
        fi
        if ! has_project; then
            no_software "no python with torch: run ./hpml list once on a login node"
            return
        fi
        ;;
    conda)
        # A job's shell has not read .bashrc, where `conda activate` is usually set up.
        hook=$(conda shell.bash hook) || no_software "no conda here: is it one of the modules?" ||
            return
        eval "$hook"
        conda activate "$conda_environment" ||
            no_software "conda has no environment $conda_environment that it can activate" || return
        ;;
    container)
        # shellcheck disable=SC2034
        container=("${container_command[@]}")
        local installed # in a copy of the course, src is a link to there
        installed=$(dirname "$(realpath src)")
        if ((!${#container[@]})); then
            container=("$container_program" exec "${container_options[@]}"
                --bind "$PWD,$installed${data:+,$data}${node_disk:+,$node_disk}" --pwd "$PWD"
                --env PYTHONPATH="$PWD/src" "$container_image")
        fi
        ;;
    *)
        no_software "software is '$software', expected venv, conda or container"
        return
        ;;
    esac
    export PYTHONPATH=$PWD/src${PYTHONPATH:+:$PYTHONPATH} # this folder's, also in a copy
}

if [[ -n ${SLURM_JOB_ID:-} ]]; then
    # What the job has that this one was submitted from (a terminal of OnDemand is one): srun refuses
    # two of the first three, and takes the others' cores for ours. Steps have the job's memory.
    unset SLURM_MEM_PER_CPU SLURM_MEM_PER_GPU SLURM_MEM_PER_NODE "${!SLURM_CPU_BIND@}"
    prepare_software || return
    if ((${#exports[@]})); then
        export "${exports[@]}"
    fi
    if [[ -n $network_interface ]]; then
        export GLOO_SOCKET_IFNAME=$network_interface NCCL_SOCKET_IFNAME=$network_interface
        export HOROVOD_GLOO_IFACE=$network_interface OMPI_MCA_btl_tcp_if_include=$network_interface
    fi
    if [[ -n $data ]]; then
        export HPML_DATA=$data
    fi
    if [[ -n $node_disk ]]; then
        export HPML_NODE_DISK=$node_disk
    fi
fi
