"""The plug-in as a package: how it loads, what the build script says, and the example of its page."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent


def python(program, **environment):
    done = subprocess.run([sys.executable, "-c", program], env=os.environ | environment, text=True, capture_output=True,
                          timeout=600)
    assert done.returncode == 0, done.stderr[-4000:]
    return done


@pytest.mark.parametrize("imports", ["import torch", "import torch_npu", "import torch, torch_npu",
                                     "import fusion_attention_op_plugin"])
def test_loads_whatever_is_imported_first(imports):
    done = python(f"{imports}; import sys; print(sys.modules['torch_npu'].swa_forward.__name__)")
    assert done.stdout.splitlines()[-1] == "swa_forward" and done.stderr == ""


def test_looking_for_torch_npu_does_not_load_it():
    """Libraries ask in this way whether there is an NPU."""
    python("import importlib.util as u, sys; assert u.find_spec('torch_npu'); assert 'torch' not in sys.modules;"
           "import torch_npu; torch_npu.swa_forward")


@pytest.mark.parametrize("mode", ["0", "1", "2"])
def test_queue_modes(mode):
    """The same numbers in every mode of torch-npu's task queue, with dropout, which makes a mask on a second stream."""
    python("""
import sys
sys.path.insert(0, {folder!r})
import torch, torch_npu
from swa_case import Case
for _ in range(5):
    case = Case("BNSD", (33, 33), (40, 40), mode=4, pre=7, next=0, mask="compressed")
    (out, maxima, _), gradients = case.expected()
    results = case.forward()
    case.assert_close(results[0], out, 4, "attention")
    for one, wanted in zip(case.backward(results)[:3], gradients):
        case.assert_close(one, wanted, 16, "gradient")
    torch.npu.manual_seed(5)
    first = case.forward(keep_prob=0.5)
    torch.npu.manual_seed(5)
    second = case.forward(keep_prob=0.5)
    assert torch.equal(first[0].cpu(), second[0].cpu())
""".format(folder=str(ROOT / "test")), TASK_QUEUE_ENABLE=mode)


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
