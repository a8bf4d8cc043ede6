"""What the tests on npu tensors share. They need the environment of an installed tree: source <prefix>/set_env.sh."""
import importlib.util
import os
import subprocess
import sys
import textwrap

import pytest

if importlib.util.find_spec("torch_npu") is None:
    collect_ignore_glob = ["test_npu_*.py"]


@pytest.fixture
def run_python():
    """Runs code in a new interpreter, with changed variables of the environment; the finished process with its texts."""

    def run(code, check=True, **variables):
        process = subprocess.run([sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True, timeout=300,
                                 env={**os.environ, **variables})
        if check:
            assert process.returncode == 0, process.stderr
        return process

    return run


@pytest.fixture
def run_tool():
    """Runs a command of `python -m ops_transformer` and checks its exit code; the finished process with its texts."""

    def run(*words, code=0, **variables):
        process = subprocess.run([sys.executable, "-m", "ops_transformer", *map(str, words)], capture_output=True, text=True,
                                 timeout=300, stdin=subprocess.DEVNULL, env={**os.environ, **variables})
        assert process.returncode == code, f"exit code {process.returncode}\n{process.stdout}{process.stderr}"
        return process

    return run


@pytest.fixture
def same():
    """same(actual, expected, ...): an npu tensor, or a structure of them, holds exactly what the CPU's does."""
    import torch

    def check(actual, expected, **tolerances):
        if isinstance(expected, (tuple, list)):
            assert len(actual) == len(expected)
            for one, other in zip(actual, expected):
                check(one, other, **tolerances)
        elif isinstance(expected, torch.Tensor):
            assert actual.device.type == "npu", actual.device
            assert actual.dtype == expected.dtype and actual.stride() == expected.stride()
            torch.testing.assert_close(actual.cpu(), expected, equal_nan=True, **(tolerances or {"rtol": 0, "atol": 0}))
        else:
            assert actual == expected

    return check
