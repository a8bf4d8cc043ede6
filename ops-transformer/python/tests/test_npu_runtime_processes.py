"""Processes and threads: exits with live objects, children of every kind, many threads, errors in the middle."""
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from npu_attention import Problem, call

ATTENTION = """
import torch, torch_npu

def attend(seed=0):
    \"\"\"Forward and backward; one number of each.\"\"\"
    generator = torch.Generator().manual_seed(seed)
    q, k, v = (torch.randn(2, 4, 129, 32, generator=generator).npu().requires_grad_() for _ in range(3))
    out = torch_npu.npu_fusion_attention(q, k, v, 4, "BNSD", scale=0.2)[0]
    gradient, = torch.autograd.grad(out, q, torch.ones(out.shape).npu())
    return out.detach().cpu().sum().item(), gradient.cpu().abs().sum().item()
"""


def expect_clean(process, code=0):
    assert process.returncode == code, process.stderr
    for word in ("Traceback", "terminate", "Segmentation", "[ERROR]"):
        assert word not in process.stderr, process.stderr


def test_exit_with_live_objects(run_python):
    """A graph, a cycle, streams, events, pinned memory, generators and what modules hold, of threads that are gone too."""
    process = run_python(ATTENTION + """
import sys
from concurrent.futures import ThreadPoolExecutor

class Cycle: pass

out = torch_npu.npu_fusion_attention(*[torch.ones(1, 1, 9, 8).npu().requires_grad_() for _ in range(3)], 1, "BNSD")
cycle = Cycle()
cycle.me, cycle.tensor = cycle, torch.ones(9).npu()
streams = [torch.npu.Stream() for _ in range(5)]
events = [stream.record_event() for stream in streams]
host = torch.ones(10**6).pin_memory()
device = host.to("npu", non_blocking=True)
generator = torch.Generator(device="npu")
sys.numbers = torch.rand(5, generator=generator, device="npu")
pool = ThreadPoolExecutor(3)
print(list(pool.map(attend, range(3))))
print("end")
""")
    assert process.stdout.split()[-1] == "end"
    expect_clean(process)


@pytest.mark.parametrize("ending, code", [("sys.exit(3)", 3), ("os.kill(os.getpid(), signal.SIGTERM)", -signal.SIGTERM)])
def test_exit_codes(run_python, ending, code):
    process = run_python(f"{ATTENTION}\nimport os, signal, sys\nattend()\ntensor = torch.ones(9).npu()\n{ending}", check=False)
    expect_clean(process, code)


def test_exit_with_an_exception(run_python):
    """Of the device, which is passed on."""
    process = run_python(f"{ATTENTION}\nattend()\ntensor = torch.ones(1, 1, 9, 999).npu()\n"
                         "torch_npu.npu_fusion_attention(tensor, tensor, tensor, 1, 'BNSD')", check=False)
    assert process.returncode == 1 and process.stderr.rstrip().endswith("head dimension 999 exceeds 768")
    assert "terminate" not in process.stderr


# ---- children ----

CHILDREN = ATTENTION + """
import multiprocessing, sys

if __name__ == "__main__":
    context = multiprocessing.get_context(sys.argv[1])
    expected = attend(5) if sys.argv[2] == "used" else None
    with context.Pool(2) as pool:
        results = pool.map(attend, [5] * 4)
    expected = expected or attend(5)
    assert results == [expected] * 4, (results, expected)
    print("same")
"""


def run_script(path, *arguments):
    """Children that do not fork import the program of their parent, which has to be a file."""
    process = subprocess.run([sys.executable, path, *arguments], capture_output=True, text=True, timeout=200)
    expect_clean(process)
    return process.stdout.split()[-1]


@pytest.mark.parametrize("method, before", [("fork", "unused"), ("spawn", "used"), ("forkserver", "used")])
def test_children_compute_the_same_bits(tmp_path, method, before):
    """With threads of their own: attention is large enough to start them."""
    script = tmp_path / "children.py"
    script.write_text(CHILDREN)
    assert run_script(script, method, before) == "same"


def test_fork_of_a_process_that_used_the_device(run_python):
    """CPU-37. Attention works in the child, with threads of its own. PyTorch's do not survive: its CPU operators would wait for
    them, hence one thread, and it refuses backward passes in the child itself."""
    process = run_python(ATTENTION + """
import os
torch.set_num_threads(1)
operands = [torch.randn(2, 4, 129, 32) for _ in range(3)]

def forward():
    return torch_npu.npu_fusion_attention(*[operand.npu() for operand in operands], 4, "BNSD")[0].cpu()

before, both = forward(), attend()
child = os.fork()
if child == 0:
    assert torch.equal(forward(), before)
    try:
        attend()
    except RuntimeError as error:
        assert "fork-based multiprocessing" in str(error), error
        os._exit(7)
    os._exit(8)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
assert attend() == both and torch.equal(forward(), before)
print("same")
""")
    assert process.stdout.split()[-1] == "same"
    expect_clean(process)


def test_data_loader_with_attention_between_the_batches(tmp_path):
    """Workers are forked while the device and its threads are at work."""
    script = tmp_path / "loader.py"
    script.write_text(ATTENTION + """
if __name__ == "__main__":
    data = torch.utils.data.TensorDataset(torch.arange(64.0).view(16, 4))
    total = 0
    for epoch in range(2):
        for batch, in torch.utils.data.DataLoader(data, batch_size=4, num_workers=2, pin_memory=True):
            attend()
            total += batch.to("npu", non_blocking=True).cpu().sum().item()
    print(total)
""")
    assert float(run_script(script)) == 2 * sum(range(64))


# ---- threads ----


def work_of(problem, keep_prob=1.0, version=1):
    """Forward and backward of a problem; the numbers."""
    inputs = {name: problem.pack(each).npu().requires_grad_() for name, each in problem.sequences.items()}
    results = call(version, inputs, problem.heads, problem.layout, scale=problem.scale, keep_prob=keep_prob)
    gradients = torch.autograd.grad(results[0], list(inputs.values()), problem.pack(problem.dy).npu())
    return [tensor.detach().cpu() for tensor in (*results[:3], *gradients)]


@pytest.mark.parametrize("streams", [False, True], ids=["one stream", "a stream a thread"])
def test_four_threads(streams):
    problems = [Problem(dtype=torch.bfloat16, lengths=[(70 + 40 * index, 90)] * 2, seed=index) for index in range(4)]
    expected = [work_of(problem) for problem in problems]

    def run(problem):
        stream = torch.npu.Stream() if streams else torch.npu.current_stream()
        with torch.npu.stream(stream):
            return [work_of(problem) for _ in range(15)]

    with ThreadPoolExecutor(4) as pool:
        for alone, together in zip(expected, pool.map(run, problems)):
            for results in together:
                assert all(torch.equal(*pair) for pair in zip(alone, results))


def test_errors_belong_to_their_thread():
    """Each thread reads its own text, whatever others do at the same time."""

    def run(dim):
        tensor = torch.ones(1, 1, 16, dim).npu()
        if dim <= 768:
            return [call(1, {"query": tensor, "key": tensor, "value": tensor}, 1, "BNSD")[0].cpu().mean().item()
                    for _ in range(50)]
        texts = []
        for _ in range(50):
            with pytest.raises(RuntimeError) as caught:
                call(1, {"query": tensor, "key": tensor, "value": tensor}, 1, "BNSD")
            texts.append(str(caught.value))
        return texts

    dims = [800, 900, 64, 1000]
    with ThreadPoolExecutor(4) as pool:
        for dim, results in zip(dims, pool.map(run, dims)):
            for result in results:
                if dim <= 768:
                    assert result == pytest.approx(1, abs=1e-6)
                else:
                    assert str(dim) in result and not any(str(other) in result.split("EZ1001", 1)[1] for other in dims
                                                          if other != dim and other > 768)
