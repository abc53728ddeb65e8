"""Settings of threads, tried in processes of their own."""

from dataclasses import replace

import pytest

from hpml.modules.m02_hardware.lecture import openmp_settings
from hpml.modules.m02_hardware.lecture.openmp_settings import Trial, Tried, compare, reads, settings


def tried(**steps):
    trials = tuple(Trial(name.replace("_is_", "="), step, 0.1) for name, step in steps.items())
    known = {"OMP_NUM_THREADS": True, "KMP_BLOCKTIME": False}
    return Tried(2, trials, ("/lib/libgomp.so.1",), known, again=trials[1])


def test_the_first_trials_are_one_thread_and_a_thread_for_each_core():
    assert settings(4)[:2] == [{"OMP_NUM_THREADS": "1"}, {"OMP_NUM_THREADS": "4"}]
    assert all(one["OMP_NUM_THREADS"] == "4" for one in settings(4)[4:])
    assert settings(4)[3] == {"OMP_NUM_THREADS": "8", "MKL_DYNAMIC": "FALSE"}


@pytest.fixture
def libraries(tmp_path):
    """An OpenMP library of GNU's kind, and one of Intel's."""
    gnu, intel = tmp_path / "libgomp.so.1", tmp_path / "libiomp5.so"
    gnu.write_bytes(b"\0OMP_NUM_THREADS\0WAIT_POLICY\0OMP_PROC_BIND\0")
    intel.write_bytes(b"\0OMP_NUM_THREADS\0KMP_BLOCKTIME\0KMP_AFFINITY\0")
    return str(gnu), str(intel)


def values(found, variable):
    return [one[variable] for one in found if variable in one]


def test_what_the_loaded_library_reads_is_tried(libraries):
    gnu, intel = (settings(4, [library]) for library in libraries)
    assert (len(gnu), len(intel)) == (7, 9)
    assert values(gnu, "OMP_WAIT_POLICY") == ["passive"]
    assert values(gnu, "OMP_PROC_BIND") == ["close"]
    assert not values(gnu, "KMP_BLOCKTIME") + values(gnu, "KMP_AFFINITY")
    assert values(intel, "KMP_BLOCKTIME") == ["0", "infinite"]
    assert len(values(intel, "KMP_AFFINITY")) == 2


def test_a_setting_that_nobody_reads_is_no_winner():
    found = tried(OMP_NUM_THREADS_is_1=0.2, OMP_NUM_THREADS_is_2=0.11, KMP_BLOCKTIME_is_0=0.1)
    assert found.best.setting == "OMP_NUM_THREADS=2"


def test_the_quicker_run_of_a_setting_counts_and_what_lies_between_both_is_alike():
    found = tried(OMP_is_1=0.2, OMP_is_2=0.15, KMP_is_0=0.12, GOMP_is_1=0.19)
    found = replace(found, again=Trial("OMP=2", 0.1, 0.1))
    assert (found.best.setting, found.gain) == ("OMP=2", 2.0)
    assert found.alike == ["KMP=0"]


def test_where_the_libraries_are_not_known_every_setting_may_win():
    found = tried(OMP_NUM_THREADS_is_1=0.2, KMP_BLOCKTIME_is_0=0.1)
    assert replace(found, libraries=()).best.setting == "KMP_BLOCKTIME=0"


def test_the_quickest_is_compared_with_one_thread():
    found = tried(OMP_is_1=0.2, OMP_is_2=0.15, KMP_is_0=0.1)
    assert (found.held, found.best.setting, found.gain) == (True, "KMP=0", 2.0)


@pytest.mark.parametrize(("again", "differs"), [(0.104, True), (0.101, False)])
def test_a_winner_by_no_more_than_two_runs_differ_is_noticed(again, differs):
    found = tried(OMP_is_1=0.2, OMP_is_2=0.102, KMP_is_0=0.1)
    assert replace(found, again=Trial("OMP=2", again, 0.1)).differs_as_much == differs


def test_more_than_the_cores_can_give_does_not_hold():
    assert not tried(OMP_is_1=0.4, OMP_is_2=0.1, KMP_is_0=0.1).held


def test_no_gain_from_threads_does_not_hold():
    assert not tried(OMP_is_1=0.1, OMP_is_2=0.1, KMP_is_0=0.1).held


def test_a_library_has_to_be_loaded_and_read_the_standards_variable():
    found = tried(OMP_is_1=0.2, OMP_is_2=0.1)
    assert found.known_library
    assert not replace(found, libraries=()).known_library
    assert not replace(found, known={"OMP_NUM_THREADS": False}).known_library


def test_a_variable_is_read_where_its_name_stands_in_the_library(tmp_path):
    library = tmp_path / "libgomp.so.1"
    library.write_bytes(b"\0OMP_NUM_THREADS\0WAIT_POLICY\0")
    assert reads([str(library)], "OMP_NUM_THREADS")
    assert reads([str(library)], "OMP_WAIT_POLICY")
    assert not reads([str(library)], "KMP_BLOCKTIME")


def test_each_setting_reaches_its_process(monkeypatch):
    monkeypatch.setenv("HPML_BATCH", "2")
    two = [{"OMP_NUM_THREADS": "1"}, {"OMP_NUM_THREADS": "2", "OMP_WAIT_POLICY": "active"}]
    given = []
    monkeypatch.setattr(
        openmp_settings, "settings", lambda cores, libraries: given.append(libraries) or two
    )
    threads = []
    told = openmp_settings.told

    def watched(script, environment):
        record = told(script, environment=environment)
        threads.append(record["threads"])
        return record

    monkeypatch.setattr(openmp_settings, "told", watched)
    found = compare(steps=1)
    assert threads == [1, 2, 2]
    assert [one.threads for one in found.trials] == [1, 2]
    assert found.again.setting == found.trials[1].setting
    assert [one.setting for one in found.trials][1] == "OMP_NUM_THREADS=2, OMP_WAIT_POLICY=active"
    assert given[0] == []
    assert tuple(given[1]) == found.libraries
    assert found.known["OMP_NUM_THREADS"]
    assert "KMP_BLOCKTIME" in found.known  # though it was not tried
    assert all(one.product > 0 for one in found.trials)
    assert len(str(found).splitlines()) == 4
