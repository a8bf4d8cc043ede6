"""torch_npu's task queue may run attention later, on another thread: in none of its modes does another operator notice."""
import pytest

# Operands that are gone, or overwritten, when the queue reaches the operator; derivatives; results of another stream.
PROGRAM = """
    import torch, torch_npu

    torch.set_num_threads(1)  # the CPU's part; the operands are small
    torch.manual_seed(0)
    q, k, v = (torch.randn(2, 4, 64, 32, device="npu") for _ in range(3))

    def attention(q, k, v):
        return torch_npu.npu_fusion_attention(q, k, v, 4, "BNSD", scale=32 ** -0.5)[0]

    def reference(q, k, v):
        return (q @ k.transpose(-1, -2) * 32 ** -0.5).softmax(-1) @ v

    def check(result, expected, *what):
        # Sums of 64 products of numbers near 1, in two orders.
        assert (result.cpu() - expected).abs().max() < 1e-4, what

    def noise():
        return [torch.full((2, 4, 64, 32), float("nan")) for _ in range(3)]  # whoever frees memory too early reads this

    {before}
    for step in range(60):
        result = attention(q * 2, k + step, v - 1)
        kept = noise()
        check(result, reference(q.cpu() * 2, k.cpu() + step, v.cpu() - 1), "temporary operands", step)
        operand = q.clone()
        result = attention(operand, k, v)
        operand.zero_()
        check(result, reference(q.cpu(), k.cpu(), v.cpu()), "overwritten operand", step)

    x, y = q.clone().requires_grad_(), q.cpu().requires_grad_()
    attention(x, k, v).square().sum().backward()
    reference(y, k.cpu(), v.cpu()).square().sum().backward()
    check(x.grad, y.grad, "gradient")

    expected = [reference(q.cpu() + step, k.cpu(), v.cpu()) for step in range(40)]
    side, done = torch.npu.Stream(), torch.npu.Event()
    for step in range(40):
        with torch.npu.stream(side):
            result = attention(q + step, k, v)
            done.record()
        torch.npu.current_stream().wait_event(done)
        kept = noise()
        check(result * 2, 2 * expected[step], "another stream", step)
    done.synchronize()
    assert done.query()
    print("right")
"""


def check(run_python, before="", **variables):
    assert run_python(PROGRAM.format(before=before), **variables).stdout.split()[-1] == "right"


@pytest.mark.parametrize("mode", ["0", "1", "2"])
def test_right_in_every_mode(run_python, mode):
    check(run_python, TASK_QUEUE_ENABLE=mode)


def test_right_with_a_queue_for_each_stream(run_python):
    check(run_python, TASK_QUEUE_ENABLE="2", PER_STREAM_QUEUE="1")


# Not from 0: torch_npu starts its queue with the device, or never, and drops what is put into a queue that never started.
@pytest.mark.parametrize("first, then", [("1", 0), ("2", 1), ("1", 2)])
def test_right_after_a_change_of_the_mode(run_python, first, then):
    check(run_python, f"attention(q, k, v); torch.npu.set_task_queue_enable({then})", TASK_QUEUE_ENABLE=first)
