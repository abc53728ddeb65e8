"""The Horovod of this environment does what was verified when it was built."""

import pytest

from hpml.errors import UserError
from hpml.horovod import flavour, state, verify

KNOWN = state.read()
needs_horovod = pytest.mark.skipif(not KNOWN.works, reason=f"Horovod is not built: {KNOWN.reason}")


@pytest.fixture(scope="module")
def built() -> flavour.Flavour:
    found, missing = flavour.detect()
    if missing:  # since Horovod was built
        pytest.skip("; ".join(missing))
    return found


@needs_horovod
def test_it_is_of_the_flavour_that_this_machine_gives(built):
    if built.mpi and KNOWN.mpicxx == "":
        pytest.skip("Horovod was built before MPI was installed: ./hpml horovod builds it anew")
    assert KNOWN.key == built.key, "./hpml horovod builds it anew"


@needs_horovod
@pytest.mark.parametrize("framework", verify.FRAMEWORKS)
def test_two_ranks_sum_under_horovodrun(tmp_path, framework):
    verify._two_ranks("--gloo", framework, tmp_path / "log", None)


HOROVODRUN = """#!/bin/sh
case "$*" in
  --check-build) cat "$0.build" ;;
  *) cat "$0.ranks" ;;
esac
exit $(cat "$0.status")
"""
BUILD = (
    "    [X] TensorFlow\n    [X] PyTorch\n    [ ] MXNet\n    [X] MPI\n    [X] Gloo\n    [ ] NCCL\n"
)
RANKS = "[0]<stdout>:all-reduce right on rank 0 of 2\n[1]<stdout>:all-reduce right on rank 1 of 2\n"


@pytest.fixture
def verified(tmp_path):
    """`verified(...)`: verify a Horovod whose horovodrun prints this."""

    def verified(build: str = BUILD, ranks: str = RANKS, status: int = 0, mpi: str = "Open MPI"):
        program = tmp_path / "site" / "bin" / "horovodrun"
        program.parent.mkdir(parents=True)
        program.write_text(HOROVODRUN)
        program.chmod(0o755)
        for name, text in (("build", build), ("ranks", ranks), ("status", str(status))):
            program.with_name(f"horovodrun.{name}").write_text(text)
        wanted = flavour.Flavour("1", "p", "c", "t", "tf", mpi, "", "g", "", "l")
        return verify.verify(wanted, tmp_path / "log", tmp_path / "site")

    return verified


def test_a_horovod_that_has_all_is_verified(verified):
    assert verified() == []


@pytest.mark.parametrize("part", ["TensorFlow", "PyTorch", "MPI", "Gloo"])
def test_a_part_that_check_build_does_not_name_is_missed(verified, part):
    with pytest.raises(UserError, match=f"--check-build names no {part}"):
        verified(build=BUILD.replace(f"[X] {part}", f"[ ] {part}"))


def test_a_part_that_was_left_out_is_not_missed(verified):
    assert verified(build=BUILD.replace("[X] MPI", "[ ] MPI"), mpi="") == []


@pytest.mark.parametrize("rank", [0, 1])
def test_a_rank_that_prints_nothing_got_no_sum(verified, rank):
    with pytest.raises(
        UserError, match=rf"two ranks with torch: rank {rank} got no sum: see .*log"
    ):
        verified(
            ranks="".join(line for line in RANKS.splitlines(True) if f"rank {rank}" not in line)
        )


def test_a_horovodrun_that_fails_is_reported(verified):
    with pytest.raises(UserError, match="horovodrun --check-build exits 3"):
        verified(status=3)


def test_where_only_mpirun_starts_no_ranks_horovod_is_usable_and_it_is_reported(
    verified, monkeypatch
):
    real = verify._two_ranks

    def two_ranks(over, *arguments):
        if over == "--mpi":
            raise UserError("no slots")
        real(over, *arguments)

    monkeypatch.setattr(verify, "_two_ranks", two_ranks)
    assert verified() == ["mpirun starts no ranks here (no slots); horovodrun does, over Gloo"]
