"""python -m ops_transformer verify: exit codes, what it refuses, what it shows, and that it can report a failure."""
import json
import os
import re
import shutil
import subprocess
from pathlib import Path

import ops_transformer.home
import pytest

PROGRAM = Path(ops_transformer.home.home()) / "bin/attention_verify"
PROBLEM = "layout=BNSD dtype=bf16 n=4/2 d=32 q=33 kv=70 mode=3 mask=compressed"
BACKWARD = "layout=BSND dtype=fp32 pass=backward n=2 d=16 q=9 kv=20"


def read(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_problem_strings(run_tool, tmp_path):
    done = run_tool("verify", PROBLEM, BACKWARD, "--json", tmp_path / "cases")
    forward, backward = read(tmp_path / "cases")
    assert forward["ok"] and forward["problems"] == [] and "dtype=bf16" in forward["case"] and "kv=70" in forward["case"]
    assert {output["name"]: output["elements"] for output in forward["outputs"]} == {
        "attentionOut": 4 * 33 * 32, "softmaxMax": 4 * 33, "softmaxSum": 4 * 33}
    assert {output["name"] for output in backward["outputs"]} == {"dq", "dk", "dv"}
    for output in forward["outputs"] + backward["outputs"]:
        assert 0 < output["error"] <= output["bound"] and output["ratio"] == pytest.approx(output["error"] / output["bound"])
    lines = [line.split() for line in done.stdout.splitlines()]
    assert ["bf16", "attentionOut", "1", str(4 * 33 * 32)] in [line[:4] for line in lines]
    assert done.stdout.endswith("2 of 2 cases are within their bounds\n")


@pytest.mark.parametrize("backward", [False, True])
def test_random_cases(run_tool, tmp_path, backward):
    words = ["--random", 12, "--seed", 5, *["--backward"] * backward]
    run_tool("verify", *words, "--json", tmp_path / "cases")
    cases = read(tmp_path / "cases")
    assert len(cases) == 12 and all(case["ok"] for case in cases)
    assert all(("pass=backward" in case["case"]) == backward for case in cases)
    printed = subprocess.run([PROGRAM, *map(str, words), "--print"], capture_output=True, text=True, check=True).stdout
    assert printed.splitlines() == [case["case"] for case in cases]
    other = subprocess.run([PROGRAM, "--random=12", "--seed=6", "--print"], capture_output=True, text=True, check=True).stdout
    assert other != printed


def test_reports_errors_beyond_a_tight_bound(run_tool, tmp_path):
    """Floats are not exact, so that no error at all is more than they can do."""
    done = run_tool("verify", PROBLEM, "--bound-scale", 0, "--json", tmp_path / "cases", code=1)
    (case,) = read(tmp_path / "cases")
    assert not case["ok"] and any(problem.startswith("attentionOut") for problem in case["problems"])
    assert f"FAILED {case['case']}\n" in done.stdout
    assert case["problems"][0] in done.stdout
    assert done.stdout.endswith("0 of 1 cases are within their bounds\n")


@pytest.mark.parametrize("words, part", [
    (["layout=BNDS"], "BNDS"),
    (["layout=BNSD q=-1"], "-1"),
    (["layout=BNSD mode=9 mask=2d"], "9"),
    (["layout=TND mode=5 q=4 kv=4 mask=2d prefix=2"], "mode"),
    (["--random", "0"], "--random 0"),
    (["--random", "3", "--seed", "-1"], "--seed -1"),
    (["--backward", PROBLEM], "--backward"),
    (["--bound-scale", "2", PROBLEM], "--bound-scale 2"),
    (["--json", "/nowhere/cases", PROBLEM], "/nowhere/cases"),
])
def test_wrong_arguments(run_tool, words, part):
    done = run_tool("verify", *words, code=2)
    assert re.fullmatch(r"error: .*\n", done.stderr) and part in done.stderr


def test_wrong_argument_behind_a_right_one(run_tool, tmp_path):
    """Is refused before any work."""
    run_tool("verify", PROBLEM, "layout=BNDS", "--json", tmp_path / "cases", code=2)
    assert not (tmp_path / "cases").exists()


@pytest.fixture
def copied_package(tmp_path):
    """A tree with the package and a program of the test's own."""
    package = Path(ops_transformer.home.__file__).parent
    shutil.copytree(package, tmp_path / "python/ops_transformer", ignore=shutil.ignore_patterns("home", "*.so", "__pycache__"))
    (tmp_path / "bin").mkdir()
    program = tmp_path / "bin/attention_verify"

    def make(text):
        program.write_text(f"#!/bin/sh\n{text}\n")
        program.chmod(0o755)
        return {"PYTHONPATH": f"{tmp_path / 'python'}:{os.environ.get('PYTHONPATH', '')}"}

    return make


LINE = ('{"case": "layout=BSND dtype=fp16 n=1 d=64 q=64 kv=64", "ok": %s, "outputs": [{"name": "attentionOut", "dtype": "fp16", '
        '"elements": 5, "error": null, "bound": 1e-3, "ratio": null}], "problems": [%s]}')
ASKED = 'case "$*" in *--print*) echo "layout=BSND dtype=fp16 n=1 d=64 q=64 kv=64"; exit;; esac\n'


def test_program_that_finds_a_fault(run_tool, copied_package):
    variables = copied_package(ASKED + "echo '" + LINE % ("false", '"attentionOut is not a number"') + "'; exit 1")
    done = run_tool("verify", PROBLEM, code=1, **variables)
    assert "not finite" in done.stdout and "attentionOut is not a number" in done.stdout
    assert done.stdout.endswith("0 of 1 cases are within their bounds\n")


def test_program_that_ends_too_early(run_tool, copied_package):
    """Not a success, whatever it has said until then."""
    done = run_tool("verify", PROBLEM, code=1, **copied_package(ASKED + "echo gone >&2; exit 0"))
    assert re.fullmatch(r"error: .*attention_verify ended with 0 after 0 of 1 cases: gone\n", done.stderr)
    done = run_tool("verify", PROBLEM, code=1, **copied_package(ASKED + "kill -SEGV $$"))
    assert re.fullmatch(r"error: .*attention_verify ended with -11 after 0 of 1 cases: no text\n", done.stderr)


def test_no_program(run_tool, copied_package, tmp_path):
    variables = copied_package("")
    (tmp_path / "bin/attention_verify").unlink()
    assert "bin/attention_verify is missing" in run_tool("verify", PROBLEM, code=1, **variables).stderr
