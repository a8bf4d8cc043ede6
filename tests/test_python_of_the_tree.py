"""The Python that ci/setup.sh sets up finds the installed tree without set_env.sh, and does without the tree."""

import shutil
import sys
import sysconfig

import pytest

PROGRAM = """
import torch, torch_npu
print((torch.ones(3, device="npu") + 1).sum().item())
print(torch_npu.__file__.count("site-packages"), __import__("npu_fallback").__file__)
"""


@pytest.fixture
def python(run, tmp_path):
    """Of an environment without set_env.sh that sees torch and torch-npu, linked to tree/install."""
    venv = tmp_path / "a venv"
    run(sys.executable, "-m", "venv", "--without-pip", venv)
    (site,) = venv.glob("lib/python*/site-packages")
    (site / "torch.pth").write_text(sysconfig.get_path("purelib") + "\n")
    script = 'source "$0"; PREFIX=$1; link_python_to_tree; link_python_to_tree'
    run("bash", "-c", script, run.ROOT / "ci/setup.sh", tmp_path / "tree/install", env={"FUSION_VENV": str(venv)})
    return venv / "bin/python"


def test_without_an_installed_tree(run, python):
    done = run(python, "-c", "import sys; print(len([name for name in sys.modules if name.startswith('npu')]))")
    assert (done.stdout, done.stderr) == ("0\n", "")


def test_without_set_env(run, python, prefix, tmp_path):
    shutil.copytree(prefix, tmp_path / "tree/install", symlinks=True)
    done = run(python, "-c", PROGRAM)
    assert done.stdout.splitlines() == ["6.0", f"1 {tmp_path}/tree/install/python/npu_fallback/__init__.py"]


def test_with_set_env(run, python, prefix, tmp_path):
    """What was sourced comes first."""
    shutil.copytree(prefix, tmp_path / "tree/install", symlinks=True)
    done = run.sourced(prefix, f"'{python}' -c '{PROGRAM}'")
    assert done.stdout.splitlines() == ["6.0", f"1 {prefix}/python/npu_fallback/__init__.py"]


def test_a_library_is_missing(run, python, prefix, tmp_path):
    shutil.copytree(prefix, tmp_path / "tree/install", symlinks=True)
    (tmp_path / "tree/install/lib64/libhccl.so").unlink()
    done = run(python, "-c", "import torch_npu", code=1)
    assert "ImportError: torch_npu needs libhccl.so, which is neither " in done.stderr.splitlines()[-1]
    assert "`python -m ops_transformer doctor` says what to do" in done.stderr.splitlines()[-1]
