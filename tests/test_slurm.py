"""The job scripts: said in full, free of any site, and right as far as that shows without SLURM."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from hpml.train.config import TrainConfig

SLURM = Path(__file__).parents[1] / "slurm"
JOBS = sorted(SLURM.glob("*.slurm"))
TRAINING = [job for job in JOBS if "hpml.train" in job.read_text()]
REQUEUED = [job for job in TRAINING if "--resume" in job.read_text()]
GRADING = SLURM / "grade_array.slurm"  # the instructor's, of no module
RECORD = SLURM / "record_gpu.slurm"  # and this one
BINDING = SLURM / "02_binding.slurm"  # its step asks for no CPUs, so that any mask is taken
DIRECTIVE = re.compile(r"#SBATCH (--[a-z-]+)(?:=(\S+))?(?: +# (.+))?")
# What describes the work. What describes the cluster (--account, --partition, --constraint, --qos,
# --reservation, --mail-user, --chdir, ...) is for slurm/site.sh and the command line.
OPTIONS = {
    "--array",
    "--job-name",
    "--output",
    "--open-mode",
    "--nodes",
    "--ntasks-per-node",
    "--distribution",
    "--cpus-per-task",
    "--exclusive",
    "--gpus-per-node",
    "--mem-per-cpu",
    "--time",
    "--signal",
    "--requeue",
}

each_job = pytest.mark.parametrize("job", JOBS, ids=lambda job: job.name)
each_training = pytest.mark.parametrize("job", TRAINING, ids=lambda job: job.name)
each_requeued = pytest.mark.parametrize("job", REQUEUED, ids=lambda job: job.name)


def launcher(job: Path) -> str:
    """What starts the job's ranks, which is what Horovod's job scripts are named after."""
    named = job.stem.removesuffix("_gpu").partition("_")[2]
    return named if named in ("horovodrun", "mpirun") else "srun"


def directives(job: Path) -> dict[str, tuple[str | None, str | None]]:
    """Value and comment of each #SBATCH line, by option."""
    found = {}
    for line in job.read_text().splitlines():
        if line.startswith("#SBATCH"):
            match = DIRECTIVE.fullmatch(line)
            assert match, f"not an option with a comment: {line}"
            assert match[1] not in found, f"given twice: {line}"
            found[match[1]] = (match[2], match[3])
    return found


def commands(job: Path) -> str:
    """The script without comments, and with its continued lines joined."""
    text = job.read_text().replace("\\\n", " ")
    return "\n".join(line for line in text.splitlines() if not line.startswith("#"))


def test_there_are_jobs():
    assert JOBS
    assert [launcher(job) for job in TRAINING if job.name.startswith("05")] == [
        *["horovodrun"] * 2,
        *["mpirun"] * 2,
        *["srun"] * 2,
    ]
    assert [job.stem[:2] for job in REQUEUED] == ["06"] * 3 + ["07"] * 6


def test_scripts_are_clean_to_shellcheck(needs):
    others = (SLURM / "site.sh", SLURM / "study.sh", SLURM / "ssh_by_srun" / "ssh")
    scripts = [path.relative_to(SLURM.parent) for path in (*JOBS, *others)]
    told = subprocess.run(
        [needs("shellcheck"), "--external-sources", *scripts],
        cwd=SLURM.parent,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert told.stdout == ""
    assert told.returncode == 0


@each_job
def test_every_sbatch_line_has_a_comment_and_describes_the_work_only(job):
    for option, (_, comment) in directives(job).items():
        assert comment, option
        assert option in OPTIONS, option


@each_job
def test_sbatch_reads_every_sbatch_line(job):
    # sbatch stops reading them at the first command.
    before, _, _ = job.read_text().partition("\nset -e")
    assert before.count("\n#SBATCH") == job.read_text().count("\n#SBATCH") > 0


@each_job
def test_a_script_is_a_page(job):
    lines = job.read_text().splitlines()
    assert len(lines) <= 45
    assert max(map(len, lines)) <= 100


@each_job
def test_a_script_names_no_path_outside_the_project(job):
    text = re.sub(r"^#!/bin/bash", "", job.read_text())
    assert not re.search(r"(?<![\w./$}])~?/\w", text)


@each_job
def test_site_matters_come_from_site_sh_before_anything_runs(job):
    text = commands(job)
    assert text.index("source slurm/site.sh") < text.index(f"{launcher(job)} -")
    assert "module load" not in text


@each_job
def test_ranks_are_told_their_cores_and_run_in_the_container(job):
    (line,) = [line for line in commands(job).splitlines() if f"{launcher(job)} -" in line]
    assert '"${container[@]}" ' in line
    if job == BINDING:
        assert "--cpus-per-task" not in line
    elif launcher(job) == "srun":
        assert '--cpus-per-task="$SLURM_CPUS_PER_TASK"' in line
    else:
        assert '-np "$SLURM_NTASKS"' in line
    if launcher(job) != "srun" or job in TRAINING:
        assert '--threads "$SLURM_CPUS_PER_TASK"' in line


@pytest.mark.parametrize("job", [job for job in TRAINING if job.name.startswith("05")])
def test_module_05_trains_with_horovod(job):
    assert "python -m hpml.train --backend horovod" in " ".join(commands(job).split())


@each_job
def test_gpus_are_asked_for_in_gpu_jobs_only(job):
    wants = [option for option in directives(job) if "gpu" in option or "gres" in option]
    assert wants == (["--gpus-per-node"] if job.stem.endswith("_gpu") else [])


@pytest.mark.parametrize(
    "job",
    # The one of the record starts its ranks itself.
    [job for job in JOBS if job.stem.endswith("_gpu") and job != RECORD],
    ids=lambda job: job.name,
)
def test_a_gpu_job_has_as_many_ranks_as_gpus(job):
    said = directives(job)
    assert said["--gpus-per-node"][0] == said["--ntasks-per-node"][0]


@each_training
def test_the_training_script_has_the_options_it_is_given(job):
    given = re.findall(r"--[a-z-]+", commands(job).partition("hpml.train")[2])
    known = {"--" + name.replace("_", "-") for name in TrainConfig.__dataclass_fields__}
    assert {option.replace("--no-", "--") for option in given} <= known
    assert "--out" in given


@each_requeued
def test_a_job_that_is_requeued_keeps_its_log_and_is_warned_in_time(job):
    assert "--checkpoint" in commands(job)
    said = directives(job)
    assert "--requeue" in said
    assert said["--open-mode"][0] == "append"
    signal, _, seconds = said["--signal"][0].partition("@")
    # Without "B:" the ranks get it, and SIGTERM is what makes them save and stop.
    assert signal == "TERM"
    assert int(seconds) >= 60


STUBS = {
    # What srun leaves is a second newer, for two files in one tick of the clock are equally new.
    "srun": 'echo "srun $*" >>"$TOLD"; ${SRUN_LEAVES:+touch -d "1 second" "$SRUN_LEAVES"}; '
    'exit "$SRUN_EXITS"',
    **{
        name: f'echo "{name} $*" >>"$TOLD"; exit "$SRUN_EXITS"' for name in ("mpirun", "horovodrun")
    },
    "scontrol": 'if [[ $* == "show hostnames" ]]; then printf "n1\\nn2\\n"; '
    'else echo "scontrol $*" >>"$TOLD"; fi',
    "sbatch": 'echo "sbatch $* $(env | grep ^SBATCH_ | sort | tr "\\n" " ")" >>"$TOLD"',
    "apptainer": "exit 1",
}


@pytest.fixture
def bash(tmp_path):
    """Runs bash in a project folder of its own, with stand-ins for SLURM's commands.

    Returns exit code, what the stand-ins were told, and stderr.
    """
    (tmp_path / "slurm").mkdir()
    for file in SLURM.iterdir():
        if file.is_file():
            (tmp_path / "slurm" / file.name).write_bytes(file.read_bytes())
    stubs = tmp_path / "bin"
    stubs.mkdir()
    for name, body in {**STUBS, "python": 'exit "${PYTHON_EXITS:-0}"'}.items():
        (stubs / name).write_text(f"#!/bin/bash\n{body}\n")
        (stubs / name).chmod(0o755)

    def run(script: str, srun_exits: int = 0, **environment: str):
        told = tmp_path / "told"
        told.write_text("")
        done = subprocess.run(
            ["bash", "-c", script],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=60,
            env={
                "PATH": f"{stubs}:{os.defpath}",
                "TOLD": str(told),
                "SRUN_EXITS": str(srun_exits),
                **environment,
            },
        )
        return done.returncode, told.read_text(), done.stderr

    run.site = tmp_path / "slurm" / "site.sh"
    return run


# A later job of a study, where the script is one: the first submits the others.
IN_A_JOB = {
    "SLURM_JOB_ID": "7",
    "SLURM_CPUS_PER_TASK": "4",
    "SLURM_NTASKS": "8",
    "SCALING_STUDY": "5",
}


@each_job
def test_a_job_runs_with_site_sh_as_it_stands(bash, job):
    code, told, error = bash(f"bash slurm/{job.name} --epochs 3", **IN_A_JOB)
    assert (code, error) == (0, "")
    started = {"srun": "--cpus-per-task=4 ", "mpirun": "-np 8 ", "horovodrun": "--gloo -np 8 "}
    assert told.startswith(f"{launcher(job)} {'' if job == BINDING else started[launcher(job)]}")
    assert told.count("\n") == 1
    if job in TRAINING:
        assert told.rstrip().endswith("--epochs 3")


FIRST_OF_A_STUDY = {
    "SLURM_JOB_ID": "7",
    "SLURM_JOB_PARTITION": "quick",
    "SLURM_NTASKS_PER_NODE": "3",
    "SLURM_CPUS_PER_TASK": "4",
}


@pytest.mark.parametrize(
    ("suffix", "gpus", "asked", "sizes"),
    [
        ("", {}, "", ["2", "4"]),
        ("_gpu", {"SLURM_GPUS_PER_NODE": "3"}, "8 16 32", ["8", "16", "32"]),
    ],
)
def test_the_first_job_of_a_study_submits_the_others_and_measures(bash, suffix, gpus, asked, sizes):
    """The others ask for what the first was given, and wait for the one before them."""
    job = f"slurm/08_scaling{suffix}.slurm"
    code, told, error = bash(f"bash {job} {asked} --batch 8", **FIRST_OF_A_STUDY, **gpus)
    assert (code, error) == (0, "")
    *submitted, measured = told.splitlines()
    assert [re.search(r"--nodes=(\d+)", line)[1] for line in submitted] == sizes
    for line in submitted:
        assert line.startswith("sbatch --parsable --nodes=")
        assert line.rstrip().endswith(f"{job} --batch 8")
        for option in (
            *("--export=ALL,SCALING_STUDY=7", "--kill-on-invalid-dep=yes", "--partition=quick"),
            *("--ntasks-per-node=3", "--cpus-per-task=4"),
        ):
            assert f" {option} " in line
        assert (" --gpus-per-node=3 " in line) == bool(gpus)
        assert " --dependency=afterok:" in line
    assert "--dependency=afterok:7 " in submitted[0]
    assert measured.endswith("--out build/jobs/7 --batch 8")


@pytest.mark.parametrize(
    ("name", "layout", "distribution"),
    [
        ("fsdp", "--shard fsdp", None),
        ("tensor", "--tensor 4", None),
        # A stage on each node, where neighbours in number are on different nodes.
        ("pipeline", "--pipeline 3", "cyclic"),
    ],
)
@pytest.mark.parametrize("suffix", ["", "_gpu"])
def test_module_07_splits_a_transformer_along_the_nodes(bash, name, layout, distribution, suffix):
    job = SLURM / f"07_{name}{suffix}.slurm"
    assert directives(job).get("--distribution", (None,))[0] == distribution
    nodes = {"SLURM_JOB_NUM_NODES": "3", "SLURM_NTASKS_PER_NODE": "4"}
    _, told, _ = bash(f"bash slurm/{job.name}", **IN_A_JOB, **nodes)
    assert f"python -m hpml.train --model vit --size small {layout} --" in told


@each_requeued
def test_a_run_that_was_stopped_goes_back_into_the_queue(bash, job):
    left = {"SRUN_LEAVES": "build/jobs/7/checkpoint.pt"}
    code, told, _ = bash(f"bash slurm/{job.name}", srun_exits=143, **IN_A_JOB, **left)
    assert code == 143
    assert told.splitlines()[1:] == ["scontrol requeue 7"]


@each_requeued
def test_ranks_that_were_ended_beside_a_failed_one_do_not_go_back_into_the_queue(bash, job):
    # srun then says 143 as well. An older checkpoint is no sign of anything.
    older = "mkdir -p build/jobs/7 && touch -d yesterday build/jobs/7/checkpoint.pt"
    code, told, _ = bash(f"{older} && bash slurm/{job.name}", srun_exits=143, **IN_A_JOB)
    assert code == 143
    assert "requeue" not in told


@each_requeued
def test_a_run_that_failed_does_not_go_back_into_the_queue(bash, job):
    code, told, _ = bash(f"bash slurm/{job.name}", srun_exits=1, **IN_A_JOB)
    assert code == 1
    assert "requeue" not in told


NSYS = """#!/bin/bash
if [[ $1 == --version ]]; then exit; fi
echo "nsys $*" >>"$TOLD"
for word; do [[ $word == --output=* ]] && echo a report >"${word#--output=}"; done
exit "$SRUN_EXITS"
"""


def has_nsys(bash) -> None:
    program = bash.site.parent.parent / "bin" / "nsys"
    program.write_text(NSYS)
    program.chmod(0o755)


def test_a_gpu_is_profiled_by_nsight_systems_where_it_is_and_else_by_torch(bash):
    _, without, _ = bash("bash slurm/03_profile_gpu.slurm", **IN_A_JOB)
    assert "--profile 0,7 " in without
    assert "nsight.py" not in without
    has_nsys(bash)
    _, told, _ = bash("bash slurm/03_profile_gpu.slurm", **IN_A_JOB)
    assert "python slurm/nsight.py build/jobs/7 python -m hpml.train --device cuda " in told
    assert "--profile" not in told


@pytest.mark.parametrize(("rank", "traced"), [("0", True), ("3", False), ("7", True)])
@pytest.mark.parametrize("fails", [0, 3])
def test_nsight_systems_traces_two_ranks_and_leaves_their_reports(
    bash, tmp_path, rank, traced, fails
):
    has_nsys(bash)
    left, disk = tmp_path / "left", tmp_path / "disk"
    left.mkdir()
    disk.mkdir()
    code, told, error = bash(
        f"{sys.executable} slurm/nsight.py left bash -c 'exit {fails}'",
        srun_exits=fails,
        SLURM_PROCID=rank,
        TMPDIR=str(disk),
        **IN_A_JOB,
    )
    assert (code, error) == (fails, "")
    assert [path.name for path in left.iterdir()] == [f"rank{rank}.nsys-rep"] * traced
    assert told.startswith("nsys profile --trace=") == traced
    assert list(disk.iterdir()) == []


def test_a_job_without_python_says_what_to_do(bash):
    code, told, error = bash("bash slurm/00_hello.slurm", PYTHON_EXITS="1", **IN_A_JOB)
    assert code == 2
    assert told == ""
    assert error.startswith("slurm/site.sh: no python with torch")
    assert error.count("\n") == 1


def settings(bash, **values: str) -> None:
    """Fill in lines of site.sh, as a site does."""
    text = bash.site.read_text()
    for name, value in values.items():
        text, count = re.subn(rf"(?m)^{name}=(\(.*?\)|\S*)", f"{name}={value}", text, count=1)
        assert count == 1, name
    bash.site.write_text(text)


def test_submit_adds_nothing_where_nothing_is_filled_in(bash):
    _, told, _ = bash("source slurm/site.sh && submit slurm/06_one_node.slurm --epochs 3")
    assert told.split() == ["sbatch", "slurm/06_one_node.slurm", "--epochs", "3"]


def test_submit_tells_sbatch_what_the_site_wants_for_each_kind_of_job(bash):
    settings(
        bash, account="abc", cpu_partition="batch", gpu_partition="accel", gpu_constraint="big"
    )
    _, told, _ = bash("source slurm/site.sh; submit slurm/00_hello.slurm")
    assert told.split()[2:] == ["SBATCH_ACCOUNT=abc", "SBATCH_PARTITION=batch"]
    _, told, _ = bash("source slurm/site.sh; submit slurm/06_several_nodes_gpu.slurm")
    assert told.split()[2:] == [
        "SBATCH_ACCOUNT=abc",
        "SBATCH_CONSTRAINT=big",
        "SBATCH_PARTITION=accel",
    ]


def test_submit_writes_the_gpus_as_the_site_does_and_for_gpu_jobs_only(bash):
    settings(bash, gpus_per_node="a100:4")
    _, told, _ = bash("source slurm/site.sh; submit slurm/06_several_nodes_gpu.slurm")
    assert told.split()[2:] == ["SBATCH_GPUS_PER_NODE=a100:4"]
    _, told, _ = bash("source slurm/site.sh; submit slurm/06_several_nodes.slurm")
    assert told.split()[2:] == []


def test_submit_names_account_and_quality_of_service_for_each_kind_of_job(bash):
    settings(bash, account="abc", gpu_account="abc_g", qos="debug", hint="nomultithread")
    _, told, _ = bash("source slurm/site.sh; submit slurm/00_hello.slurm")
    every = ["SBATCH_QOS=debug", "SBATCH_HINT=nomultithread"]
    assert sorted(told.split()[2:]) == sorted(["SBATCH_ACCOUNT=abc", *every])
    settings(bash, gpu_qos="gpu_debug")
    _, told, _ = bash("source slurm/site.sh; submit slurm/06_several_nodes_gpu.slurm")
    of_gpus = ["SBATCH_ACCOUNT=abc_g", "SBATCH_QOS=gpu_debug", "SBATCH_HINT=nomultithread"]
    assert sorted(told.split()[2:]) == sorted(of_gpus)


def test_gpus_can_be_asked_for_by_gres_alone(bash):
    settings(bash, gpu_gres="gpu:a100:4")
    _, told, _ = bash("source slurm/site.sh; submit slurm/06_several_nodes_gpu.slurm")
    assert told.split()[2:] == ["SBATCH_GPUS_PER_NODE=0", "SBATCH_GRES=gpu:a100:4"]
    _, told, _ = bash("source slurm/site.sh; submit slurm/06_several_nodes.slurm")
    assert told.split()[2:] == []


def test_submit_finds_the_job_behind_options_of_sbatch(bash):
    settings(bash, account="abc", gpu_partition="accel")
    _, told, _ = bash("source slurm/site.sh; submit --nodes=1 slurm/06_several_nodes_gpu.slurm -x")
    assert told.split()[1:3] == ["--nodes=1", "slurm/06_several_nodes_gpu.slurm"]
    assert told.split()[3:] == ["-x", "SBATCH_ACCOUNT=abc", "SBATCH_PARTITION=accel"]


@pytest.mark.parametrize("script", ["06_one_node", "05_mpirun", "05_srun"])
def test_a_container_goes_between_the_launcher_and_python(bash, script):
    settings(bash, software="container", container_image="course.sif")
    _, told, _ = bash(f"bash slurm/{script}.slurm", **IN_A_JOB)
    assert re.search(r"apptainer exec --nv .* course\.sif python -m hpml\.train", told)


def test_a_container_sees_the_data_and_gets_the_options_of_the_site(bash):
    settings(bash, software="container", container_image="course.sif", data="/cifar")
    settings(bash, container_options="(--rocm)", node_disk="/local")
    _, told, _ = bash("bash slurm/06_one_node.slurm", **IN_A_JOB)
    assert re.search(r"apptainer exec --rocm --bind \S+,/cifar,/local --pwd", told)


def test_a_container_sees_the_installation_that_a_copys_src_is_a_link_to(bash, tmp_path):
    settings(bash, software="container", container_image="course.sif")
    (tmp_path / "installed" / "src").mkdir(parents=True)
    (bash.site.parents[1] / "src").symlink_to(tmp_path / "installed" / "src")
    _, told, _ = bash("bash slurm/06_one_node.slurm", **IN_A_JOB)
    assert f"--bind {bash.site.parents[1]},{tmp_path / 'installed'} --pwd" in told


def test_another_program_for_containers_has_its_own_command(bash):
    settings(bash, software="container", container_command="(shifter --image=docker:course)")
    _, told, _ = bash("bash slurm/06_one_node.slurm", **IN_A_JOB)
    assert "shifter --image=docker:course python -m hpml.train" in told


def test_horovodrun_is_in_the_container_itself(bash):
    settings(bash, software="container", container_program="echo", container_image="course.sif")
    code, told, _ = bash("bash slurm/05_horovodrun.slurm >$TOLD", **IN_A_JOB)
    assert code == 0
    assert re.search(r"exec --nv .* course\.sif horovodrun --gloo -np 8 python -m hpml", told)


def test_horovodrun_is_told_the_nodes_where_there_are_several(bash):
    several = {"SLURM_JOB_NUM_NODES": "2", "SLURM_NTASKS_PER_NODE": "4"}
    _, told, _ = bash("bash slurm/05_horovodrun.slurm", **IN_A_JOB, **several)
    assert "--gloo -np 8 --disable-cache --hosts n1:4,n2:4 python -m" in told
    settings(bash, network_interface="ib0")
    _, told, _ = bash("bash slurm/05_horovodrun.slurm", **IN_A_JOB, **several)
    assert "--hosts n1:4,n2:4 --network-interface ib0 python -m" in told


def test_what_horovodrun_takes_for_ssh_hands_the_command_to_srun(bash):
    ssh = SLURM / "ssh_by_srun" / "ssh"
    options = "-o PasswordAuthentication=no -o StrictHostKeyChecking=no"
    for after in ("", "-p 2222 -i key -o ConnectTimeout=10"):
        command = """'cd there ; env A="b c" python -c 1' 2"""
        code, told, error = bash(f"{ssh} {options} n2 {after} {command}", SLURM_CPUS_ON_NODE="32")
        assert (code, error) == (0, "")
        assert told.startswith("srun --nodes=1 --ntasks=1 --ntasks-per-node=1 --cpus-per-task=32 ")
        assert "--overlap --nodelist=n2 " in told
        assert told.endswith("""bash -c cd there ; env A="b c" python -c 1 2\n""")
    code, _, _ = bash(f"{ssh} n2 false", srun_exits=7, SLURM_CPUS_ON_NODE="32")
    assert code == 7


def test_conda_activates_the_environment(bash):
    settings(bash, software="conda", conda_environment="day2")
    # Stands in for the function that `conda shell.bash hook` defines.
    hook = 'conda() { [[ $1 == shell.bash ]] || echo "conda $*" >>"$TOLD"; }; export -f conda; '
    code, told, _ = bash(f"{hook} bash slurm/00_hello.slurm", **IN_A_JOB)
    assert code == 0
    assert told.splitlines()[0] == "conda activate day2"


@pytest.mark.parametrize(
    ("values", "hook", "said"),
    [
        ({"modules": "(python/9)"}, "module() { [[ $1 != load ]]; }; export -f module; ",
         "module load python/9 failed"),
        ({"software": "conda"}, "", "no conda here: is it one of the modules?"),
        ({"software": "conda"}, "conda() { [[ $1 != activate ]]; }; export -f conda; ",
         "conda has no environment hpml that it can activate"),
    ],
)  # fmt: skip
def test_software_that_is_not_there_stops_the_job(bash, values, hook, said):
    settings(bash, **values)
    code, told, error = bash(f"{hook} bash slurm/00_hello.slurm", **IN_A_JOB)
    assert (code, told) == (2, "")
    assert error.splitlines()[-1] == f"slurm/site.sh: {said}"


@pytest.mark.parametrize("has", [True, False], ids=["with the project", "of another project"])
def test_what_was_active_stays_only_where_the_project_is_in_it(bash, has):
    """As ./hpml chooses: conda's base, active at submission, does not hide .venv."""
    venv = bash.site.parent.parent / ".venv" / "bin"
    venv.mkdir(parents=True)
    (venv / "activate").write_text('echo activated >>"$TOLD"; export PYTHON_EXITS=0')
    active = {"CONDA_PREFIX": "/opt/conda", "PYTHON_EXITS": "0" if has else "1"}
    code, told, error = bash("bash slurm/00_hello.slurm", **active, **IN_A_JOB)
    assert (code, error) == (0, "")
    assert ("activated" in told) == (not has)


def test_what_an_outer_job_left_does_not_reach_srun(bash):
    left = {"SLURM_MEM_PER_NODE": "8192", "SLURM_MEM_PER_CPU": "1024", "SLURM_CPU_BIND": "quiet",
            "SLURM_CPU_BIND_LIST": "0x3"}  # fmt: skip
    script = 'source slurm/site.sh; env | grep -E "^SLURM_(MEM|CPU_BIND)" >"$TOLD"; true'
    code, told, _ = bash(script, **left, **IN_A_JOB)
    assert (code, told) == (0, "")


def test_modules_are_loaded_first(bash):
    settings(bash, modules="(python/3.11 cuda/12)")
    hook = 'module() { echo "module $*" >>"$TOLD"; }; export -f module; '
    _, told, _ = bash(f"{hook} bash slurm/00_hello.slurm", **IN_A_JOB)
    assert told.splitlines()[:2] == ["module purge", "module load python/3.11 cuda/12"]


def test_network_and_data_of_the_site_reach_the_ranks(bash):
    settings(bash, network_interface="ib0", data="cifar")
    names = "GLOO_SOCKET_IFNAME NCCL_SOCKET_IFNAME HOROVOD_GLOO_IFACE OMPI_MCA_btl_tcp_if_include"
    script = f"source slurm/site.sh; printenv {names} HPML_DATA >$TOLD"
    assert bash(script, **IN_A_JOB)[1].split() == [*["ib0"] * 4, "cifar"]


def test_what_a_site_exports_reaches_the_ranks(bash):
    settings(bash, exports='(FI_PROVIDER=cxi "NCCL_DEBUG_SUBSYS=INIT NET")')
    script = "source slurm/site.sh; printenv FI_PROVIDER NCCL_DEBUG_SUBSYS >$TOLD"
    assert bash(script, **IN_A_JOB)[1].splitlines() == ["cxi", "INIT NET"]


def test_a_kind_of_software_that_there_is_not_is_refused(bash):
    settings(bash, software="spack")
    code, told, error = bash("bash slurm/00_hello.slurm", **IN_A_JOB)
    assert code == 2
    assert told == ""
    assert error == "slurm/site.sh: software is 'spack', expected venv, conda or container\n"


def test_the_day_lists_exactly_these_jobs():
    from hpml.course.schedule import load

    listed = [path for module in load().modules for path in module.jobs]
    for_learners = [job for job in JOBS if job not in (GRADING, RECORD)]
    assert sorted(listed) == [job.relative_to(SLURM.parent) for job in for_learners]


def test_each_part_of_an_array_grades_its_share_with_what_is_given_after_the_script(bash):
    array = {"SLURM_ARRAY_TASK_ID": "2", "SLURM_ARRAY_TASK_COUNT": "3"}
    code, told, _ = bash(f"bash slurm/{GRADING.name} 'my class' --out x", **IN_A_JOB, **array)
    assert code == 0
    assert "python -m hpml grade --part 2/3 --jobs 4 --resume my class --out x" in told
    first, _, last = directives(GRADING)["--array"][0].partition("-")
    assert first == "1"
    assert int(last) > 1
