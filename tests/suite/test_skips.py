"""In CI a skip is a failure, unless hardware is missing: skips.py, on small test files."""

from pathlib import Path

import pytest

from . import skips

pytest_plugins = ["pytester"]
SKIPS_PLUGIN = Path(skips.__file__).read_text()


@pytest.fixture
def outcome(pytester, monkeypatch):
    """`outcome(test file, ci)`: what pytest says of it, and its exit code."""

    def run(source: str, ci: bool) -> tuple[str, int]:
        monkeypatch.setenv("CI", "true" if ci else "")
        monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
        pytester.makeconftest(SKIPS_PLUGIN)
        pytester.makepyfile(source)
        result = pytester.runpytest_inprocess("-q")
        return result.stdout.str(), result.ret

    return run


SKIPS = {
    "needs": "def test_it(needs): needs('no-such-program')",
    "skip": "import pytest\ndef test_it(): pytest.skip('no-such-program is not installed')",
    "mark": "import pytest\n@pytest.mark.skip(reason='no-such-program is not installed')\n"
    "def test_it(): pass",
    "module": "import pytest\npytest.skip('no-such-program is not installed', "
    "allow_module_level=True)",
}


@pytest.mark.parametrize("source", SKIPS.values(), ids=SKIPS)
def test_a_learner_is_told_what_is_missing_and_nothing_fails(outcome, source):
    said, code = outcome(source + "\ndef test_other(): pass", ci=False)
    assert "1 skipped" in said
    assert code == (0 if "module" not in source else 5)


@pytest.mark.parametrize("source", SKIPS.values(), ids=SKIPS)
def test_in_ci_the_same_is_a_failure_that_names_it(outcome, source):
    said, code = outcome(source, ci=True)
    assert code != 0
    assert "no-such-program is not installed: no reason in CI" in said
    assert "skipped" not in said.splitlines()[-1]
    assert "not tested" not in said


MACHINE = """
import pytest
bwrap = pytest.mark.skip(reason="bwrap is not installed: apt install bubblewrap")

@bwrap
@pytest.mark.parametrize("n", range(3))
def test_sandbox(n): pass

def test_lint(needs): needs("shellcheck-that-is-not-there")

@bwrap
def test_other(): pass

def test_good(): pass
"""


@pytest.mark.parametrize("workers", [0, 2])
def test_the_last_lines_name_what_was_not_tested_and_the_remedy(pytester, monkeypatch, workers):
    monkeypatch.setenv("CI", "")
    pytester.makeconftest(SKIPS_PLUGIN)
    pytester.makepyfile(
        test_tests=MACHINE,
        test_file="import pytest\npytest.skip('no GPU: buy one', allow_module_level=True)",
    )
    said = pytester.runpytest_subprocess("-q", "-p", "xdist", "-n", str(workers)).stdout.str()
    assert said.splitlines()[-3:] == [
        "not tested: 4 tests, as bwrap is not installed: apt install bubblewrap",
        "not tested: 1 file, as no GPU: buy one",
        "not tested: 1 test, as shellcheck-that-is-not-there is not installed",
    ]


def test_what_ci_installs_is_what_a_learner_is_told_to(outcome, monkeypatch):
    monkeypatch.setenv("PATH", "/nowhere")
    said, _ = outcome("def test_it(needs): needs('munged')", ci=False)
    assert (
        said.splitlines()[-1] == "not tested: 1 test, as munged is not installed: apt install munge"
    )


def test_with_nothing_missing_there_is_nothing_to_say(outcome):
    said, _ = outcome("def test_it(): pass", ci=False)
    assert "not tested" not in said


def test_in_ci_hardware_may_be_missing(outcome):
    said, code = outcome("import pytest\ndef test_it(): pytest.skip('needs 2 GPUs')", ci=True)
    assert (code, "1 skipped" in said) == (0, True), said


def test_in_ci_an_expected_failure_is_still_expected(outcome):
    said, code = outcome("import pytest\n@pytest.mark.xfail\ndef test_it(): assert 0", ci=True)
    assert (code, "1 xfailed" in said) == (0, True), said


def test_needs_is_the_path_of_what_is_there(outcome):
    said, code = outcome("def test_it(needs): assert needs('sh').endswith('/sh')", ci=True)
    assert code == 0, said
