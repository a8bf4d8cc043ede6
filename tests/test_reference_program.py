"""The vendor's documented example of aclnnFlashAttentionVarLenScore, unmodified. Its text is not ours, so it is read from
a folder given by FUSION_SEEDS (or shared/seeds beside the repository) and the test is skipped without it."""

import os
import re
from pathlib import Path

import pytest


def program_text(run):
    """From the line of the first include to the last line that is a lone brace."""
    folder = Path(os.environ.get("FUSION_SEEDS", run.ROOT.parent / "shared/seeds"))
    for path in sorted(folder.glob("*.txt")) if folder.is_dir() else []:
        lines = path.read_text(encoding="utf-8").splitlines()
        if "#include <iostream>" in lines:
            last = max(number for number, line in enumerate(lines) if line == "}")
            return "\n".join(lines[lines.index("#include <iostream>"):last + 1]) + "\n"
    pytest.skip(f"the program's text is not in {folder} (set FUSION_SEEDS)")


def test_reference_program_runs_unmodified(run, moved_prefix, tmp_path):
    (tmp_path / "program.cpp").write_text(program_text(run), encoding="utf-8")
    run.sourced(moved_prefix, 'g++ "-I$ASCEND_HOME_PATH/include" program.cpp -o program "-L$ASCEND_HOME_PATH/lib64" '
                "-lopapi -lnnopbase -lascendcl", cwd=tmp_path)
    done = run.sourced(moved_prefix, "./program", cwd=tmp_path)
    printed = re.findall(r"^mean result\[(\d+)\] is: (.*)$", done.stdout, re.MULTILINE)
    # 32768 elements of attention, then 2048 maxima and 2048 sums. All 256 keys are equal, so each sum is 256.
    assert len(printed) == 32768 + 2048 + 2048
    assert [value for _, value in printed[-2048:]] == ["256.000000"] * 2048
