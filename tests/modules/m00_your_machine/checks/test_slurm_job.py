"""What is read of the files that a job has left."""

from hpml.modules.m00_your_machine.checks import _slurm_job as slurm_job


def test_of_each_file_the_beginning_is_read_and_of_links_nothing(tmp_path):
    (tmp_path / "job.log").write_text("done\n")
    (tmp_path / "odd.log").write_bytes(b"\xff\n")
    (tmp_path / "link.log").symlink_to("job.log")
    with (tmp_path / "large.log").open("wb") as file:
        file.truncate(1 << 40)  # more than any memory; the disk keeps none of it
    written = slurm_job._written(tmp_path)
    assert {name: len(text) for name, text in written.items()} == {
        "job.log": 5,
        "odd.log": 2,
        "large.log": slurm_job.LOG,
    }
