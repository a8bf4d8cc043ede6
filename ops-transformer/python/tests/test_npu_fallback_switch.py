"""A variable keeps the kernels out, and what keeps them from loading is said in a sentence."""
import subprocess

import pytest


@pytest.mark.parametrize("imports", ["torch", "torch_npu"])
def test_a_failure_is_a_sentence(run_python, imports):
    """And an exit code: the process neither hangs nor crashes."""
    process = run_python(f"import npu_fallback; npu_fallback.LIBRARY = '/nowhere/library.so'; import {imports}", check=False)
    assert process.returncode == 1, process.stderr
    assert "The CPU kernels for npu tensors cannot be used: Could not load this library: /nowhere" in process.stderr
    assert "ASCEND_CPU_FALLBACK=off goes on without them" in process.stderr


@pytest.mark.parametrize("imports", ["torch", "torch_npu", "torch_npu, torch"])
def test_a_failure_behind_torch_npu_is_a_sentence(run_python, imports):
    """When torch_npu is another one than the kernels were built for: it has to be loaded to see that."""
    process = run_python(f"""
        import npu_fallback
        def fail(ops):
            assert "torch_npu" in sys.modules
            raise RuntimeError("this torch_npu is another one")
        import sys
        npu_fallback.install = lambda: npu_fallback._run(fail)
        import {imports}
    """, check=False)
    assert process.returncode == 1, process.stderr
    assert "The CPU kernels for npu tensors cannot be used: this torch_npu is another one" in process.stderr
    assert "ERR99999" not in process.stdout + process.stderr  # torch_npu's word about errors of programs


def test_another_runtime_is_refused(run_python, tmp_path):
    """Memory of a real device is not touched."""
    other = tmp_path / "libascendcl.so"
    subprocess.run(["gcc", "-shared", "-x", "c", "/dev/null", "-Wl,-soname,libascendcl.so", "-o", other], check=True)
    # A folder that says to be of this project, so that its libraries are taken as they are found.
    (tmp_path / "version.info").write_text("FusionAttention=0.0.0\n")
    process = run_python(f"import ctypes; ctypes.CDLL({str(other)!r}); import torch", check=False, ASCEND_HOME_PATH=str(tmp_path))
    assert process.returncode == 1, process.stderr
    assert "the libascendcl.so of this process is not that of Fusion Attention" in process.stderr


def test_switched_off(run_python):
    process = run_python("import torch\nx = torch.ones(3).npu()\nprint(x.cpu().sum().item())\nx + 1", check=False,
                         ASCEND_CPU_FALLBACK="off")
    assert process.stdout.split()[:1] == ["3.0"] and process.returncode != 0


def test_wrong_value_of_the_switch(run_python):
    process = run_python("import torch", check=False, ASCEND_CPU_FALLBACK="maybe")
    assert process.returncode != 0 and "ASCEND_CPU_FALLBACK is 'maybe': it can be on or off" in process.stderr
