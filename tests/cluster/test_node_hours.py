"""What a class asks of a cluster, from the job scripts' #SBATCH lines."""

from pathlib import Path

import pytest

from hpml.cluster import job_script, node_hours
from hpml.errors import UserError
from hpml.paths import CHECKOUT


def demand(name: str, root: Path = CHECKOUT) -> node_hours.Demand:
    return node_hours.demand(job_script.read(Path("slurm", name), root), root)


def test_hours_are_those_of_the_scripts_limits():
    assert [node_hours.hours(limit) for limit in ("00:05:00", "90", "01:30:00", "30:00")] == [
        5 / 60,
        1.5,
        1.5,
        0.5,
    ]


def test_a_job_asks_for_its_nodes_and_their_cores_for_as_long_as_it_may_run():
    job = demand("06_several_nodes.slurm")
    assert (job.nodes, job.cores, job.exclusive) == (2, 32, False)  # two ranks of eight on each
    assert job.node_hours == pytest.approx(2 * 20 / 60)


def test_a_study_asks_for_all_of_its_jobs_one_after_another():
    study = demand("08_scaling.slurm")
    assert (study.sizes, study.nodes, study.cores) == ((1, 2, 4), 4, 64)
    assert study.exclusive
    assert study.node_hours == pytest.approx((1 + 2 + 4) * 10 / 60)


def test_a_study_without_sizes_is_one_clear_line(tmp_path):
    (tmp_path / "slurm").mkdir()
    (tmp_path / "slurm/08_x.slurm").write_text("#SBATCH --nodes=1\nstudy slurm/08_x.slurm\n")
    (tmp_path / "slurm/study.sh").write_text("study() { :; }\n")
    with pytest.raises(UserError, match="restore it from the repository"):
        demand("08_x.slurm", tmp_path)


def test_each_learner_submits_each_script_once():
    both = [demand("00_hello.slurm"), demand("06_several_nodes.slurm")]
    assert node_hours.node_hours(both, 30) == pytest.approx(30 * (5 + 40) / 60)
