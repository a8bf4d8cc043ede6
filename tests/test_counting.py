"""The last line of ci/test.sh is only as good as its counting: failures, errors, skips and lost reports."""

import sys

import pytest

CTEST = """<?xml version="1.0" encoding="UTF-8"?>
<testsuite name="Linux-c++" tests="4" failures="1" disabled="0" skipped="2">
  <testcase name="tests.Suite.Good" classname="tests.Suite.Good" status="run"><system-out>fine</system-out></testcase>
  <testcase name="tests.Suite.Bad" classname="tests.Suite.Bad" status="fail"><failure message=""/></testcase>
  <testcase name="tests.Suite.Left" classname="tests.Suite.Left" status="notrun">
    <skipped message="SKIP_REGULAR_EXPRESSION_MATCHED"/><system-out>/file.cpp:7: Skipped
no such device
</system-out></testcase>
  <testcase name="tests.Suite.Gone" classname="tests.Suite.Gone" status="notrun">
    <skipped message="Unable to find executable"/><system-out>Unable to find executable: gone</system-out></testcase>
</testsuite>
"""
PYTEST = """<?xml version="1.0" encoding="utf-8"?>
<testsuites><testsuite name="pytest" tests="3" errors="1" failures="0" skipped="1">
  <testcase classname="tests.test_a" name="test_good"/>
  <testcase classname="tests.test_a" name="test_error"><error message="fixture">text</error></testcase>
  <testcase classname="tests.test_a" name="test_left"><skipped type="pytest.skip" message="no zsh"/></testcase>
</testsuite></testsuites>
"""


@pytest.fixture
def count(run, tmp_path):
    def count(*reports, code):
        paths = []
        for number, (suffix, text) in enumerate(reports):
            paths.append(tmp_path / f"report{number}{suffix}")
            if text is not None:
                paths[-1].write_text(text)
        return run(sys.executable, run.ROOT / "ci/count_results.py", *paths, code=code).stdout.splitlines()

    return count


def test_all_kinds_are_added(count):
    lines = count((".xml", CTEST), (".xml", PYTEST), (".txt", "passed\tbuild\nfailed\tclang build\n"), code=1)
    assert lines[-1] == "3 passed, 4 failed"
    assert "   skipped: report0: tests.Suite.Left: no such device" in lines
    assert "   skipped: report1: tests.test_a.test_left: no zsh" in lines
    assert "   failed: report0: tests.Suite.Bad" in lines
    assert "   failed: report0: tests.Suite.Gone: Unable to find executable" in lines
    assert "   failed: report1: tests.test_a.test_error" in lines
    assert "   failed: report2: clang build" in lines


def test_all_good(count):
    assert count((".txt", "passed\tbuild\n"), code=0)[-1] == "1 passed, 0 failed"


@pytest.mark.parametrize("text", [None, "", "<testsuite"], ids=["missing", "empty", "cut off"])
def test_lost_report_is_a_failure(count, text):
    assert count((".xml", text), code=1)[-1] == "0 passed, 1 failed"


def test_failing_step_is_seen(run, tmp_path):
    """run() of ci/setup.sh hands the command's code on and shows the end of its log."""
    script = 'source "$0"; LOGS=$1; code=0; run title name bash -c "echo the reason; exit 7" || code=$?; exit $code'
    done = run("bash", "-c", script, run.ROOT / "ci/setup.sh", tmp_path, code=7)
    assert "the reason" in done.stderr and "exit code 7" in done.stderr
