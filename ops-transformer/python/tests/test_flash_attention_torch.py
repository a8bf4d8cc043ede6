"""flash_attention as a citizen of PyTorch: compile, opcheck, autocast, threads, transformations, counters."""
import pytest
import torch
from flash_problem import DEVICES, Problem, check
from torch.library import opcheck
from torch.utils.flop_counter import FlopCounterMode

from ops_transformer import flash_attention, flash_attention_varlen

forward = torch.ops.ops_transformer.attention_forward.default


def operands(*shape, device="cpu", **options):
    generator = torch.Generator().manual_seed(1)
    return [torch.randn(*shape, generator=generator).to(device).requires_grad_() for _ in range(3)]


def arguments(q, k, v, *, pse=None, mask=None, sink=None, totals=None, seed=None, layout="BNSD", mode=0):
    return (q, k, v, pse, mask, sink, totals, totals, seed, [], q.shape[-1] ** -0.5, 1.0 if seed is None else 0.75, 2**31 - 1, 2**31 - 1,
            layout, mode, 1 if pse is None else 0)


CALLS = {
    "plain": lambda: arguments(*operands(2, 4, 20, 16)),
    "bsnd, causal": lambda: arguments(*operands(2, 20, 4, 16), layout="BSND", mode=3),
    "bias": lambda: arguments(*operands(2, 4, 20, 16), pse=torch.randn(1, 4, 20, 20, requires_grad=True)),
    "sink, mask": lambda: arguments(*operands(2, 4, 20, 16), sink=torch.randn(4, requires_grad=True), mode=1,
                                    mask=torch.rand(20, 20) > 0.5),
    "packed": lambda: arguments(*operands(20, 4, 16), totals=torch.tensor([0, 7, 20]), layout="TND"),
    "dropout": lambda: arguments(*operands(2, 4, 20, 16), seed=torch.tensor([7])),
}


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS.keys())
def test_opcheck(call):
    opcheck(forward, call())


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS.keys())
def test_opcheck_of_the_gradient(call):
    with torch.no_grad():
        q, k, v, *rest = call()
        results = forward(q, k, v, *rest)
        pse_gradient = rest[0] is not None
        opcheck(torch.ops.ops_transformer.attention_backward.default,
                (torch.randn_like(results[0]), q, k, v, *results, pse_gradient, *rest))


COMPILED = {
    "causal": lambda q, k, v: flash_attention(q, k, v, causal=True),
    "window and mask": lambda q, k, v: flash_attention(q, k, v, window=(9, 3), mask=(q[:1, :1, :, :1] > -1)),
    "bias": lambda q, k, v: flash_attention(q, k, v, bias=q[:1, :, :, :1] * k[:1, :, :, 0][:, :, None]),
    "statistics": lambda q, k, v: sum(each.sum() for each in flash_attention(q, k, v, return_softmax_stats=True)),
    "packed": lambda q, k, v: flash_attention_varlen(*(t.flatten(0, 1) for t in (q, k, v)), torch.arange(3) * q.shape[1], [0, 30, 60]),
}


@pytest.mark.parametrize("function", COMPILED.values(), ids=COMPILED.keys())
@pytest.mark.parametrize("backend", ["aot_eager", "inductor"])
def test_compile_without_graph_breaks(function, backend):
    torch._dynamo.reset()
    compiled = torch.compile(function, fullgraph=True, backend=backend)
    inputs, same = operands(2, 30, 4, 16), operands(2, 30, 4, 16)
    expected, actual = function(*inputs), compiled(*same)
    torch.testing.assert_close(actual, expected)
    for result in (expected, actual):
        result.sum().backward()
    for one, other in zip(same, inputs):
        torch.testing.assert_close(one.grad, other.grad)


@pytest.mark.parametrize("device", DEVICES)
def test_compiled_sequences_with_totals_on_the_host(device):
    torch._dynamo.reset()
    q, k, v = operands(9, 2, 16, device=device)
    totals = torch.tensor([0, 4, 9])
    compiled = torch.compile(flash_attention_varlen, fullgraph=True, backend="aot_eager")
    out = compiled(q, k, v, totals, totals, dropout_p=0.0)
    assert torch.equal(out, flash_attention_varlen(q, k, v, totals, totals))
    out.sum().backward()


def test_compile_with_changing_lengths():
    torch._dynamo.reset()
    frames = []

    def backend(graph, _):
        frames.append(graph)
        return graph.forward

    compiled = torch.compile(lambda q, k, v: flash_attention(q, k, v, causal=True), fullgraph=True, dynamic=True, backend=backend)
    for length in (20, 33, 70, 512):
        inputs = operands(1, 2, length, 16)
        assert torch.equal(compiled(*inputs), flash_attention(*inputs, causal=True))
    assert len(frames) == 1


def test_compiled_dropout_draws_new_bits():
    torch._dynamo.reset()
    compiled = torch.compile(lambda q, k, v: flash_attention(q, k, v, dropout_p=0.5), fullgraph=True, backend="aot_eager")
    inputs = operands(1, 2, 40, 16)
    assert not torch.equal(compiled(*inputs), compiled(*inputs))


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
def test_autocast(dtype, device):
    q, k, v = operands(1, 2, 30, 16, device=device)
    with torch.autocast(device, dtype=dtype):
        out = flash_attention(q, k.to(dtype), v, bias=q.new_zeros(30, 30))
    assert out.dtype == dtype and torch.equal(out, flash_attention(*(t.to(dtype) for t in (q, k, v))))
    out.sum().backward()
    assert q.grad.dtype == torch.float32


def test_fake_tensors_have_the_shapes():
    with torch._subclasses.FakeTensorMode():
        q, k = torch.empty(2, 30, 8, 64), torch.empty(2, 50, 2, 64)
        out, maximum, total = flash_attention(q, k, torch.empty(2, 50, 2, 32), layout="BSND", return_softmax_stats=True)
        assert out.shape == (2, 30, 8, 32) and maximum.shape == total.shape == (2, 8, 30)
    assert flash_attention(*(t.detach().to("meta") for t in operands(1, 2, 3, 4))).shape == (1, 2, 3, 4)


def test_second_derivatives_are_refused():
    q, k, v = operands(1, 2, 8, 16)
    gradient, = torch.autograd.grad(flash_attention(q, k, v).sum(), q, create_graph=True)
    with pytest.raises(NotImplementedError, match="attention has no second derivative"):
        gradient.sum().backward()


def test_forward_mode_is_refused():
    q, k, v = (t.detach() for t in operands(1, 2, 8, 16))
    with torch.autograd.forward_ad.dual_level():
        for name in range(3):
            inputs = [q, k, v]
            inputs[name] = torch.autograd.forward_ad.make_dual(inputs[name], torch.ones_like(inputs[name]))
            with pytest.raises(NotImplementedError, match="attention has no derivative in forward mode"):
                flash_attention(*inputs)


def test_functional_gradient():
    inputs = operands(1, 2, 8, 16)
    expected = torch.autograd.grad(flash_attention(*inputs, causal=True).square().sum(), inputs)
    found = torch.func.grad(lambda *t: flash_attention(*t, causal=True).square().sum(), argnums=(0, 1, 2))(*(t.detach() for t in inputs))
    assert all(map(torch.equal, found, expected))


def test_compiled_autograd():
    inputs = operands(2, 2, 24, 16)
    sink = torch.zeros(2, requires_grad=True)
    expected = torch.autograd.grad(flash_attention(*inputs, window=(5, 0), sink=sink).square().sum(), [*inputs, sink])
    with torch._dynamo.compiled_autograd._enable(torch.compile(backend="eager")):
        flash_attention(*inputs, window=(5, 0), sink=sink).square().sum().backward()
    assert all(torch.equal(tensor.grad, gradient) for tensor, gradient in zip([*inputs, sink], expected))


def test_saved_tensors():
    """They go through hooks, must not be changed before backward, and are freed by it."""
    q, k, v = operands(1, 2, 8, 16)
    packed = []
    with torch.autograd.graph.saved_tensors_hooks(lambda tensor: packed.append(tensor) or tensor, lambda tensor: tensor):
        out = flash_attention(q, k, v)
    assert [tuple(tensor.shape) for tensor in packed] == [(1, 2, 8, 16)] * 4 + [(1, 2, 8, 8)] * 2
    out.sum().backward(retain_graph=True)
    out.sum().backward()
    with pytest.raises(RuntimeError, match="a second time"):
        out.sum().backward()
    changed = q * 1
    out = flash_attention(changed, k, v)
    changed.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        out.sum().backward()


def test_vmap_is_refused():
    q, k, v = (t.detach() for t in operands(3, 1, 2, 8, 16))
    with pytest.raises(NotImplementedError, match="attention has no rule for torch.vmap"):
        torch.vmap(flash_attention)(q, k, v)


def test_statistics_have_no_gradient():
    results = flash_attention(*operands(1, 2, 8, 16), return_softmax_stats=True)
    assert [result.requires_grad for result in results] == [True, False, False]


def test_gradients_only_where_they_are_asked_for():
    q, k, v = operands(1, 2, 8, 16)
    out = flash_attention(q.detach(), k, v.detach())
    out.sum().backward()
    assert q.grad is None and v.grad is None and k.grad is not None
    with torch.no_grad():
        assert not flash_attention(q, k, v).requires_grad
    with torch.inference_mode():
        flash_attention(q, k, v)


def test_flop_counter():
    q, k, v = operands(2, 4, 64, 16)
    product = 2 * 2 * 4 * 64 * 64 * 16
    for step, products in ((lambda: flash_attention(q, k, v, causal=True), 2), (lambda: flash_attention(q, k, v).sum().backward(), 2 + 5)):
        with FlopCounterMode(display=False) as counter:
            step()
        assert counter.get_total_flops() == products * product


def test_threads_follow_torch(run_python):
    """The threads of the process that ran during a call, by the kernel's account."""
    code = """
        import os, torch
        from ops_transformer import flash_attention

        def run_times():
            return {task: int(open(f"/proc/self/task/{task}/schedstat").read().split()[0]) for task in os.listdir("/proc/self/task")}

        def threads_at_work(setting):
            torch.set_num_threads(setting)
            q = torch.randn(1, 8, 2048, 64)
            flash_attention(q, q, q)
            return max(once(q) for _ in range(3))  # other processes may keep a thread waiting until the work is done

        def once(q):
            before = run_times()
            flash_attention(q, q, q)
            spent = sorted(time - before.get(task, 0) for task, time in run_times().items())
            return sum(time > spent[-1] / 50 for time in spent)

        print(threads_at_work(1), threads_at_work(3), threads_at_work(2))
    """
    assert run_python(code, OMP_WAIT_POLICY="passive").stdout.split() == ["1", "3", "2"]
    assert run_python(code, OMP_WAIT_POLICY="passive", ASCEND_CPU_THREADS="2").stdout.split() == ["1", "2", "2"]


def test_bits_do_not_depend_on_threads():
    inputs = operands(1, 4, 700, 64)
    before, results = torch.get_num_threads(), []
    try:
        for threads in (1, 2, 5):
            torch.set_num_threads(threads)
            out = flash_attention(*inputs, causal=True)
            results.append([out, *torch.autograd.grad(out.sum(), inputs)])
    finally:
        torch.set_num_threads(before)
    assert all(torch.equal(one, other) for result in results[1:] for one, other in zip(result, results[0]))


def test_a_forked_child_works(run_python):
    run_python("""
        import os, torch
        from ops_transformer import flash_attention

        torch.set_num_threads(4)
        q = torch.randn(1, 8, 512, 64)
        expected = flash_attention(q, q, q).numpy().tobytes()
        child = os.fork()
        if child == 0:  # torch's own operators would hang here
            os._exit(0 if flash_attention(q, q, q).numpy().tobytes() == expected else 1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    """)


def test_python_threads_may_call_at_the_same_time(run_python):
    run_python("""
        import torch
        from concurrent.futures import ThreadPoolExecutor
        from ops_transformer import flash_attention

        torch.set_num_threads(1)
        q = torch.randn(1, 2, 300, 64)
        expected = flash_attention(q, q, q)
        with ThreadPoolExecutor(8) as pool:
            assert all(torch.equal(out, expected) for out in pool.map(lambda _: flash_attention(q, q, q), range(200)))
    """)


@pytest.mark.skipif("npu" not in DEVICES, reason="needs torch_npu")
@pytest.mark.parametrize("mode", ["0", "1", "2"])
def test_npu_calls_keep_their_order_in_every_queue_mode(mode, run_python):
    run_python("""
        import torch, torch_npu
        from ops_transformer import flash_attention

        q, k, v = (torch.randn(1, 2, 300, 64, requires_grad=True) for _ in range(3))
        flash_attention(2 * q, k, v, causal=True).sum().backward()
        n = [t.detach().npu().requires_grad_() for t in (q, k, v)]
        for _ in range(20):
            for each in n:
                each.grad = None
            out = flash_attention(2 * n[0], n[1], n[2], causal=True)
            mine = torch_npu.npu_fusion_attention(out, n[1], n[2], 2, "BNSD", scale=1.0)[0]
            out.sum().backward()
            for one, other in zip(n, (q, k, v)):
                assert torch.equal(one.grad.cpu(), other.grad)
    """, TASK_QUEUE_ENABLE=mode)
