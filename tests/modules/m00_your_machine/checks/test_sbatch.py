"""What of a job script counts for sbatch, and how it writes times, arrays and file names."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hpml.modules.m00_your_machine.checks import _sbatch as sbatch


@pytest.mark.parametrize(
    "lines",
    [
        "#SBATCH --nodes=3\n#SBATCH --time=7",
        "#SBATCH -N 3 -t7   # three of them",
        "#SBATCH\t--nodes 3\n\n# and then\n#SBATCH --time '7'",
        "#SBATCH --nodes=2\n#SBATCH --nodes=3 --requeue --time=7 --mem=1G",
    ],
)
def test_every_way_to_write_a_request_is_read(lines):
    assert sbatch.read(f"#!/bin/bash\n{lines}\nsrun x\n").options == {"nodes": "3", "time": "7"}


@pytest.mark.parametrize("before", ["set -e\n", "# SBATCH --time=3\nexport A=1\n"])
def test_a_request_after_the_first_command_is_none(before):
    request = sbatch.read(f"#!/bin/sh\n#SBATCH -c 2\n{before}#SBATCH --nodes=3\n")
    assert request.options == {"cpus-per-task": "2"}
    assert request.ignored[-1] == "#SBATCH --nodes=3"


@pytest.mark.parametrize("line", ["# SBATCH --nodes=3", " #SBATCH --nodes=3", "#sbatch --nodes=3"])
def test_what_looks_like_a_request_and_is_none_is_told(line):
    request = sbatch.read(f"#!/bin/sh\n{line}\n")
    assert (request.options, request.ignored) == ({}, (line.strip(),))


@pytest.mark.parametrize("script", ["", "\n#!/bin/bash\n", "#SBATCH --nodes=1\n"])
def test_a_script_begins_with_its_interpreter(script):
    with pytest.raises(ValueError, match="first two characters"):
        sbatch.read(script)


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("#SBATCH -N=2", "sbatch takes '=2' as the value of -N: write -N2, or the long name"),
        ("#SBATCH --nodes=2\r", "sbatch refuses DOS line breaks"),
    ],
)
def test_what_sbatch_reads_in_another_way_than_it_was_meant_is_named(line, said):
    with pytest.raises(ValueError, match=re.escape(said)):
        sbatch.read(f"#!/bin/bash\n{line}\n")


@pytest.mark.parametrize("line", ["#SBATCH --nodes", "#SBATCH --output='x"])
def test_a_line_that_cannot_be_read_is_no_script(line):
    with pytest.raises(ValueError):  # noqa: PT011 - whichever of them
        sbatch.read(f"#!/bin/bash\n{line}\n")


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("7", 420),
        ("90", 5400),
        ("0:30", 30),
        ("90:00", 5400),
        ("1:07:30", 4050),
        ("2-1", 176_400),
        ("2-1:07", 176_820),
        ("2-01:07:30", 176_850),
        ("7m", None),
        ("", None),
        ("9" * 5000, None),
        (f"1-{10**9}", None),
    ],
)
def test_times_are_read_as_sbatch_does(text, seconds):
    assert sbatch.seconds(text) == seconds


@given(st.sets(st.integers(0, 99), min_size=1), st.integers(1, 9))
def test_an_array_is_the_set_of_its_parts(parts, at_once):
    text = ",".join(map(str, parts))
    assert sbatch.array_parts(text) == sbatch.array_parts(f"{text}%{at_once}") == sorted(parts)


@pytest.mark.parametrize(
    ("text", "parts"),
    [("0-3", [0, 1, 2, 3]), ("1-7:3,20", [1, 4, 7, 20]), ("3-1", None), ("a", None), ("0-", None)],
)
def test_ranges_of_an_array(text, parts):
    assert sbatch.array_parts(text) == parts


@pytest.mark.parametrize(
    "text",
    ["4000001", "0-9999999999", "0-4000000,0-4000000", f"0-{'9' * 5000}", f"0-3%{'9' * 5000}x"],
)
def test_no_slurm_takes_an_array_that_large_and_none_is_counted_out(text):
    assert sbatch.array_parts(text) is None


@pytest.mark.parametrize(
    ("pattern", "name"),
    [
        ("%x-%A_%a.log", "fit-47_3.log"),
        ("./fit-%j.log", "fit-51.log"),
        ("%4a-%%-%u", "0003-%-%u"),
        ("%999999999a", "0000000003"),
        ("%" + "1" * 5000 + "a", "%" + "1" * 5000 + "a"),
    ],
)
def test_a_log_is_named_by_its_pattern(pattern, name):
    assert sbatch.log_name(pattern, name="fit", array=47, part=3, job=51) == name
