"""The wheel for those who have never heard of an npu: torch and nothing else beside it."""
import json

FIRST = """
import sys, torch
from ops_transformer import flash_attention

q, k, v = (torch.randn(1, 8, 513, 64, dtype=torch.bfloat16, requires_grad=True) for _ in range(3))
out = flash_attention(q, k, v, causal=True)
out.sum().backward()
print(out.shape, out.dtype, q.grad.isfinite().all().item(), "torch_npu" in sys.modules)
print(*sorted({line.split("/")[-1].strip() for line in open("/proc/self/maps") if "ops_transformer/home" in line}))
"""


def test_first_call(environment_without_torch_npu):
    done = environment_without_torch_npu("-c", FIRST)
    lines = done.stdout.splitlines()
    assert lines == ["torch.Size([1, 8, 513, 64]) torch.bfloat16 True False", "libascendcl.so libnnopbase.so libopapi.so"]
    assert done.stderr == ""


def test_importing_the_package_does_not_import_torch(environment_without_torch_npu):
    done = environment_without_torch_npu("-c", "import sys, ops_transformer; print('torch' in sys.modules, dir(ops_transformer))")
    assert done.stdout.startswith("False") and "flash_attention_varlen" in done.stdout


def test_tests_of_the_cpu_side(run, environment_without_torch_npu):
    """Those that run with torch-npu as well, once more without it."""
    tests = run.ROOT / "ops-transformer/python/tests"
    done = environment_without_torch_npu("-m", "pytest", "-q", "-c", run.ROOT / "pytest.ini", "--rootdir", run.ROOT,
                                         tests / "test_flash_attention.py", tests / "test_flash_attention_errors.py",
                                         tests / "test_sdpa.py", OMP_WAIT_POLICY="passive")
    assert "npu-" not in done.stdout and " passed" in done.stdout


def test_info(environment_without_torch_npu):
    report = json.loads(environment_without_torch_npu("-m", "ops_transformer", "info", "--json").stdout)
    assert report["kernels"]["chosen"]
