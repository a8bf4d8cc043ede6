"""The plug-in as a package: how it loads, what the build script says, and the example of its page."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent


def python(program, *arguments, **environment):
    done = subprocess.run([sys.executable, "-c", program, *arguments], env=os.environ | environment, text=True, capture_output=True,
                          timeout=600)
    assert done.returncode == 0, done.stderr[-4000:]
    return done


LOOK_FIRST = "import importlib.util, sys; assert importlib.util.find_spec('torch_npu') and 'torch' not in sys.modules"


@pytest.mark.parametrize("imports", ["import torch", f"{LOOK_FIRST}; import torch_npu", "import fusion_attention_op_plugin"])
def test_loads_whatever_is_imported_first(imports):
    """Also when a library has looked whether there is torch_npu, which alone loads nothing."""
    done = python(f"{imports}; import sys; print(sys.modules['torch_npu'].swa_forward.__name__)")
    assert done.stdout.splitlines()[-1] == "swa_forward" and done.stderr == ""


QUEUE_PROGRAM = """
import sys
sys.path.insert(0, sys.argv[1])
import torch
from swa_case import LENGTHS, Case, check

def run_twice_with_dropout(case):
    for _ in range(2):
        torch.npu.manual_seed(5)
        results = case.forward(keep_prob=0.5)
        # Forward's results are backward's operands while both calls wait.
        yield [*results[:3], *case.backward(results, keep_prob=0.5)[:3]]

case = Case("TND", **LENGTHS["TND"], mode=4, pre=7, next=0, mask="compressed", softmax_layout="TND", sink=True)
for _ in range(10):
    check(case)
    for one, other in zip(*run_twice_with_dropout(case)):
        assert torch.equal(one.cpu(), other.cpu())
"""


@pytest.mark.parametrize("mode", ["0", "1", "2"])
def test_queue_modes(mode):
    """The same numbers in every mode of torch-npu's task queue, also with dropout, which makes a mask on a second stream. In
    processes of their own: torch-npu loses calls when a process that began with mode 0 changes it."""
    python(QUEUE_PROGRAM, str(ROOT / "test"), TASK_QUEUE_ENABLE=mode)


def test_example_of_the_page():
    (example,) = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(encoding="utf-8"), re.DOTALL)
    assert python(example).stdout.splitlines()[-4:] == ["out True", "dq True", "dk True", "dv True"]


@pytest.mark.parametrize("arguments, text", [
    (["--python=3.9", "--pytorch=2.13.0"], "Python 3.9 is not supported. Supported: 3.11"),
    (["--python=3.11", "--pytorch=v2.7.1-7.3.0"], "PyTorch v2.7.1-7.3.0 is not supported. Supported: 2.13.0"),
    (["--python=3.11"], "--python and --pytorch are both needed"),
    (["--help"], "unknown argument --help"),
])
def test_build_script_says_what_it_supports(arguments, text):
    done = subprocess.run(["bash", ROOT / "ci/build.sh", *arguments], text=True, capture_output=True)
    assert done.returncode == 1 and text in done.stderr
