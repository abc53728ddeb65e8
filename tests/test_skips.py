"""In CI a skip is a failure, unless hardware is missing: conftest.py, tried on small test files."""

from pathlib import Path

import pytest

pytest_plugins = ["pytester"]
CONFTEST = Path(__file__).with_name("conftest.py").read_text()


@pytest.fixture
def outcome(pytester, monkeypatch):
    """`outcome(test file, ci)`: what pytest says of it, and its exit code."""

    def run(source: str, ci: bool) -> tuple[str, int]:
        monkeypatch.setenv("CI", "true" if ci else "")
        monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
        pytester.makeconftest(CONFTEST)
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


def test_in_ci_hardware_may_be_missing(outcome):
    said, code = outcome("import pytest\ndef test_it(): pytest.skip('needs 2 GPUs')", ci=True)
    assert (code, "1 skipped" in said) == (0, True), said


def test_in_ci_an_expected_failure_is_still_expected(outcome):
    said, code = outcome("import pytest\n@pytest.mark.xfail\ndef test_it(): assert 0", ci=True)
    assert (code, "1 xfailed" in said) == (0, True), said


def test_needs_is_the_path_of_what_is_there(outcome):
    said, code = outcome("def test_it(needs): assert needs('sh').endswith('/sh')", ci=True)
    assert code == 0, said
