# shellcheck shell=bash
# A study of several sizes as one submission: its first job submits the others, of the same script.
# Sourced by slurm/08_scaling.slurm and its GPU variant, after slurm/site.sh.

# study JOB.slurm [NODES…] [ARGUMENT…]: numbers in front are the nodes of the other jobs, by default
# 2 and 4. All of them wait in the queue at once, and start one after another, so that none measures
# the network while another uses it. `afterok`: where one fails, larger ones leave the queue. They
# ask for what this job was given. Sets `run`, the folder of the study, and `arguments`, the rest.
study() {
    local job=$1 first=${SCALING_STUDY:-$SLURM_JOB_ID} before=$SLURM_JOB_ID next nodes larger=()
    shift
    while [[ ${1:-} =~ ^[0-9]+$ ]]; do
        larger+=("$1")
        shift
    done
    if ((${#larger[@]} == 0)); then
        larger=(2 4)
    fi
    # shellcheck disable=SC2034  # the job scripts use both
    run=build/jobs/$first arguments=("$@")
    if [[ $first != "$SLURM_JOB_ID" ]]; then
        return # one of the others
    fi
    for nodes in "${larger[@]}"; do
        next=$(submit --parsable --nodes="$nodes" --export="ALL,SCALING_STUDY=$first" \
            --dependency="afterok:$before" --kill-on-invalid-dep=yes \
            --partition="$SLURM_JOB_PARTITION" --ntasks-per-node="$SLURM_NTASKS_PER_NODE" \
            --cpus-per-task="$SLURM_CPUS_PER_TASK" \
            ${SLURM_GPUS_PER_NODE:+--gpus-per-node="$SLURM_GPUS_PER_NODE"} "$job" "$@")
        echo "job ${next%;*} has $nodes nodes, and begins when job $before has ended"
        before=${next%;*}
    done
}
