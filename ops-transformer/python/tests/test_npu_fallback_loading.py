"""The kernels load by themselves, once, whoever imports torch_npu; a variable keeps them out; the task queue does no harm."""
import pytest

SUM = 'print((torch.ones(3, device="npu") + 1).sum().item())'


@pytest.mark.parametrize("imports", ["import torch", "import torch_npu, torch", "import torch, torch_npu",
                                     "import importlib.util; importlib.util.find_spec('torch_npu'); import torch"])
def test_loads_by_itself_and_silently(run_python, imports):
    process = run_python(f"{imports}\n{SUM}")
    assert (process.stdout.split()[-1], process.stderr) == ("6.0", "")


def test_without_autoload(run_python):
    process = run_python(f"import torch, sys; assert 'torch_npu' not in sys.modules\nimport torch_npu\n{SUM}",
                         TORCH_DEVICE_BACKEND_AUTOLOAD="0")
    assert process.stdout.split()[-1] == "6.0"


def test_nothing_is_imported_before_it_is_needed(run_python):
    process = run_python("import sys; print('torch' in sys.modules, 'npu_fallback.import_hook' in sys.modules)")
    assert process.stdout.split() == ["False", "True"]


def test_the_module_keeps_its_own_loader(run_python):
    run_python("""
        import torch_npu, importlib.resources
        assert type(torch_npu.__spec__.loader).__name__ == "SourceFileLoader"
        assert "exec_module" not in vars(torch_npu.__spec__.loader)
        assert importlib.resources.files("torch_npu").joinpath("version.py").is_file()
    """)


def test_switched_off(run_python):
    process = run_python(f"import torch\nx = torch.ones(3).npu()\nprint(x.cpu().sum().item())\n{SUM}", check=False,
                         ASCEND_CPU_FALLBACK="off")
    assert process.stdout.split()[:1] == ["3.0"] and process.returncode != 0


def test_wrong_value_of_the_switch(run_python):
    process = run_python("import torch", check=False, ASCEND_CPU_FALLBACK="maybe")
    assert process.returncode != 0 and "ASCEND_CPU_FALLBACK is 'maybe': it can be on or off" in process.stderr


def test_child_processes(run_python, tmp_path):
    script = tmp_path / "children.py"
    script.write_text("import multiprocessing, torch\n"
                      "def work(n):\n    return (torch.ones(n, device='npu') + 1).sum().item()\n"
                      "if __name__ == '__main__':\n"
                      "    for method in ('fork', 'spawn', 'forkserver'):\n"
                      "        with multiprocessing.get_context(method).Pool(1) as pool:\n"
                      "            print(pool.map(work, [1, 2]))\n")
    process = run_python(f"import subprocess, sys; subprocess.run([sys.executable, {str(script)!r}], check=True)")
    assert process.stdout.splitlines()[-3:] == ["[2.0, 4.0]"] * 3


QUEUE_PROGRAM = """
    import torch, torch_npu

    torch.manual_seed(0)
    q, k, v = (torch.randn(2, 4, 64, 32, device="npu") for _ in range(3))

    def attention(q, k, v):
        return torch_npu.npu_fusion_attention(q, k, v, 4, "BNSD", scale=32 ** -0.5)[0]

    def reference(q, k, v):
        return (q @ k.transpose(-1, -2) * 32 ** -0.5).softmax(-1) @ v

    {before}
    for step in range(60):
        # The operands are gone when the queue reaches the operator, and their memory is wanted by somebody else.
        result = attention(q * 2, k + step, v - 1)
        noise = [torch.full((2, 4, 64, 32), float("nan")) for _ in range(3)]
        expected = reference(q.cpu() * 2, k.cpu() + step, v.cpu() - 1)
        assert (result.cpu() - expected).abs().max() < 1e-4, step
        # An operand is overwritten behind the operator.
        operand = q.clone()
        result = attention(operand, k, v)
        operand.zero_()
        assert (result.cpu() - reference(q.cpu(), k.cpu(), v.cpu())).abs().max() < 1e-4, step
    x = q.clone().requires_grad_()
    attention(x, k, v).square().sum().backward()
    y = q.cpu().requires_grad_()
    reference(y, k.cpu(), v.cpu()).square().sum().backward()
    assert (x.grad.cpu() - y.grad).abs().max() < 1e-4
    print("right")
"""


@pytest.mark.parametrize("mode", ["0", "1", "2"])
def test_right_in_every_mode_of_the_task_queue(run_python, mode):
    assert run_python(QUEUE_PROGRAM.format(before=""), TASK_QUEUE_ENABLE=mode).stdout.split()[-1] == "right"


@pytest.mark.parametrize("mode", [0, 1, 2])
def test_right_after_a_change_of_the_mode(run_python, mode):
    before = f"attention(q, k, v); torch.npu.set_task_queue_enable({mode})"
    assert run_python(QUEUE_PROGRAM.format(before=before), TASK_QUEUE_ENABLE=str((mode + 1) % 3)).stdout.split()[-1] == \
        "right"


def test_events_and_streams_with_the_queue(run_python):
    run_python("""
        import torch
        side, event = torch.npu.Stream(), torch.npu.Event()
        x = torch.zeros(1000, device="npu")
        with torch.npu.stream(side):
            x.add_(1)
            event.record()
        torch.npu.current_stream().wait_event(event)
        assert (x + 1).sum().item() == 2000
        torch.npu.synchronize()
    """, TASK_QUEUE_ENABLE="2")
