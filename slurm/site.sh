# shellcheck shell=bash
# Everything about your cluster that the job scripts need to know: the only file here that you edit.
# As it stands it suits a SLURM that wants no account and has one default partition.
#
#     sbatch slurm/00_hello.slurm                          # where the defaults below are enough
#     source slurm/site.sh && submit slurm/00_hello.slurm  # with what you filled in below
#
# Submit from the project's root folder, which all nodes must see (home, project or scratch).
# Every job script sources this file as its first act, so part 2 also holds on the nodes.

# ── 1. What sbatch has to be told here ───────────────────────────────────────────────────────────
# Leave empty what your cluster does not ask for. `sacctmgr show associations user=$USER` lists
# your accounts, `sinfo` the partitions, `sinfo -o "%P %G %f"` their GPUs and features.
account=         # who pays
reservation=     # the course's own nodes, where there are such
cpu_partition=   # for jobs without GPUs
cpu_constraint=  # a node feature to insist on
gpu_partition=   # for the job scripts that end in _gpu.slurm
gpu_constraint=

# ── 2. Where the software comes from ─────────────────────────────────────────────────────────────
# venv       modules that the site offers, and the .venv that ./hpml makes in the project's folder
# conda      an environment made with `conda env create -f environment.yml`
# container  an image for apptainer (or singularity), with this package's requirements in it
software=venv
modules=()               # for example (python/3.11 cuda/12.8); loaded first, whichever kind it is
conda_environment=hpml   # name or folder
container_program=apptainer
container_image=         # for example hpml.sif

# ── 3. Network and data ──────────────────────────────────────────────────────────────────────────
network_interface=       # the fast one, for example ib0, where ranks choose a slow one or none
data=                    # folder with CIFAR-10 that all nodes see; empty: what ./hpml data fetched

# ── Nothing below needs an edit ──────────────────────────────────────────────────────────────────

# sbatch_settings JOB.slurm: what part 1 says for that kind of job, as sbatch reads it from its
# environment. SBATCH_* count more than #SBATCH lines and less than sbatch's own options.
sbatch_settings() {
    local partition=$cpu_partition constraint=$cpu_constraint
    if [[ $1 == *_gpu.slurm ]]; then
        partition=$gpu_partition constraint=$gpu_constraint
    fi
    local settings=(
        ${account:+SBATCH_ACCOUNT="$account"}
        ${reservation:+SBATCH_RESERVATION="$reservation"}
        ${partition:+SBATCH_PARTITION="$partition"}
        ${constraint:+SBATCH_CONSTRAINT="$constraint"}
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

# prepare_software: makes `python` the right one. `container` goes between srun and python: empty
# unless the software is in one.
# shellcheck disable=SC2034  # the job scripts use it
container=()
prepare_software() {
    if ((${#modules[@]})); then
        module purge
        module load "${modules[@]}"
    fi
    case $software in
    venv)
        # An environment that was active at submission comes with the job, and is left alone.
        if [[ -z ${VIRTUAL_ENV:-}${CONDA_PREFIX:-} && -f .venv/bin/activate ]]; then
            # shellcheck source=/dev/null
            source .venv/bin/activate
        fi
        if ! python -c 'import torch' 2>/dev/null; then
            echo "slurm/site.sh: no python with torch: run ./hpml list once on a login node" >&2
            return 2
        fi
        ;;
    conda)
        # A job's shell has not read .bashrc, where `conda activate` is usually set up.
        eval "$(conda shell.bash hook)"
        conda activate "$conda_environment"
        ;;
    container)
        # --nv brings in the GPU driver; it only warns where there is none.
        # shellcheck disable=SC2034
        container=("$container_program" exec --nv --bind "$PWD" --pwd "$PWD"
            --env PYTHONPATH="$PWD/src" "$container_image")
        ;;
    *)
        echo "slurm/site.sh: software is '$software', expected venv, conda or container" >&2
        return 2
        ;;
    esac
}

if [[ -n ${SLURM_JOB_ID:-} ]]; then
    prepare_software || return
    if [[ -n $network_interface ]]; then
        export GLOO_SOCKET_IFNAME=$network_interface NCCL_SOCKET_IFNAME=$network_interface
    fi
    if [[ -n $data ]]; then
        export HPML_DATA=$data
    fi
fi
