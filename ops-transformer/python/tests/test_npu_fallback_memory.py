"""Nothing is copied on the way to a CPU kernel and back, and what a kernel changes of its arguments reaches the caller."""
import pytest
import torch


def test_in_place_keeps_the_memory():
    tensor = torch.arange(12.0).npu()
    address, version = tensor.data_ptr(), tensor._version
    assert tensor.add_(1).mul_(2) is not None
    tensor[3:6] = 0
    tensor.view(3, 4)[:, 1] += 5
    assert tensor.data_ptr() == address and tensor._version > version
    expected = (torch.arange(12.0) + 1) * 2
    expected[3:6] = 0
    expected.view(3, 4)[:, 1] += 5
    assert torch.equal(tensor.cpu(), expected)


def test_in_place_returns_the_tensor_itself():
    tensor = torch.ones(3, device="npu")
    assert tensor.add_(1) is tensor
    assert torch.add(tensor, 1, out=tensor) is tensor


def test_out_of_the_right_size_keeps_its_memory():
    out = torch.empty(4, device="npu")
    address = out.data_ptr()
    assert torch.add(torch.ones(4, device="npu"), 1, out=out) is out
    assert out.data_ptr() == address and out.tolist() == [2.0] * 4


def test_out_grows():
    out = torch.empty(0, device="npu")
    torch.add(torch.ones(2, 3, device="npu"), 1, out=out)
    assert out.shape == (2, 3) and out.untyped_storage().nbytes() == 24
    assert torch.equal(out.cpu(), torch.full((2, 3), 2.0))
    values, indices = torch.empty(0, device="npu"), torch.empty(0, dtype=torch.int64, device="npu")
    torch.max(torch.arange(6.0).view(2, 3).npu(), 1, out=(values, indices))
    assert values.tolist() == [2.0, 5.0] and indices.tolist() == [2, 2]
    # What grew is a tensor like any other: torch_npu resizes it, and attention reads its description.
    out.resize_(4, 4)
    assert torch.equal(out.flatten()[:6].cpu(), torch.full((6,), 2.0))


def test_two_outputs_over_one_storage():
    """The kernel sees that they overlap, as it does on the CPU."""
    base = torch.zeros(6, device="npu")
    torch._foreach_add_([base[:3], base[3:]], [torch.ones(3, device="npu"), torch.full((3,), 2.0, device="npu")])
    assert base.tolist() == [1.0] * 3 + [2.0] * 3
    with pytest.raises(RuntimeError, match="overlap|memory location"):
        torch.add(base[:5], 1, out=base[1:])


def test_a_view_of_an_argument_shares_its_memory():
    tensor = torch.arange(12.0).npu()
    for view in (tensor.reshape(3, 4), tensor.view(3, 4).t(), tensor[2:], tensor.expand(2, 12), tensor.squeeze(),
                 tensor.contiguous(), tensor.to("npu"), tensor.float()):
        assert view.untyped_storage().data_ptr() == tensor.untyped_storage().data_ptr()


def test_results_own_their_memory():
    tensors = [torch.full((1000,), float(i)).npu() + 0 for i in range(50)]
    del tensors[::2]
    torch.randn(100000, device="npu")
    assert [tensor[999].item() for tensor in tensors] == [float(i) for i in range(1, 50, 2)]


def test_no_copies(run_python):
    """A copy of an argument or of a result would raise the peak of the process by its size."""
    process = run_python("""
        import resource, torch
        MB = 2 ** 20
        peak = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
        torch.ones(1, device="npu").add_(1).sum().item()
        before = peak()
        big = torch.ones(64 * MB, device="npu")    # 256 MB
        result = peak() - before
        big.sum().item(), big.add_(1), torch.add(big, 1, out=big)
        print(result // MB, (peak() - before - result) // MB)
    """)
    result, arguments = map(int, process.stdout.split()[-2:])
    assert result < 320 and arguments < 64


def test_set_and_data_and_storage():
    tensor = torch.ones(4, device="npu") * 2
    other = torch.zeros(0, device="npu")
    other.set_(tensor)
    assert other.data_ptr() == tensor.data_ptr()
    parameter = torch.nn.Parameter(torch.zeros(4, device="npu"))
    parameter.data = tensor
    assert parameter.data_ptr() == tensor.data_ptr() and parameter.tolist() == [2.0] * 4
    tensor.record_stream(torch.npu.current_stream())


def test_long_lists(same):
    tensors = [torch.full((3,), float(i)) for i in range(300)]
    devices = [tensor.npu() for tensor in tensors]
    addresses = [tensor.data_ptr() for tensor in devices]
    torch._foreach_add_(devices, 1)
    torch._foreach_mul_(devices, devices)
    torch._foreach_add_(tensors, 1)
    torch._foreach_mul_(tensors, tensors)
    assert [tensor.data_ptr() for tensor in devices] == addresses
    same(devices, tensors)
    same(torch._foreach_sqrt(devices), torch._foreach_sqrt(tensors))
    same(torch.cat(devices), torch.cat(tensors))


MIXED = {
    "add": lambda npu, cpu: npu + cpu,
    "matmul": lambda npu, cpu: npu @ cpu,
    "cat": lambda npu, cpu: torch.cat([npu, cpu]),
    "in place": lambda npu, cpu: npu.mul_(cpu),
    "out": lambda npu, cpu: torch.add(npu, npu, out=cpu),
    "where": lambda npu, cpu: torch.where(npu > 0, npu, cpu),
    "foreach": lambda npu, cpu: torch._foreach_add([npu], [cpu]),
}


@pytest.mark.parametrize("name", MIXED)
def test_mixed_devices_are_refused(name):
    with pytest.raises(RuntimeError, match="Expected all tensors to be on the same device.*npu:0 and cpu"):
        MIXED[name](torch.ones(3, 3, device="npu"), torch.ones(3, 3))
    assert (torch.ones(3, device="npu") + 1).tolist() == [2.0] * 3


def test_two_npu_devices(run_python):
    process = run_python("""
        import torch
        one, other = torch.ones(3, device="npu:0"), torch.ones(3, device="npu:1")
        assert (other + 1).device == torch.device("npu:1")
        assert torch.zeros(2, device="npu:1").device.index == 1
        assert torch.equal(one.copy_(other + 1).cpu(), torch.full((3,), 2.0))
        with torch.npu.device(1):
            assert torch.zeros(2, device="npu").device.index == 1
        try:
            one + other
        except RuntimeError as error:
            print(error)
    """, ASCEND_CPU_DEVICES="2")
    assert "npu:0 and npu:1" in process.stdout


def test_kernel_errors_pass_through():
    with pytest.raises(RuntimeError, match="size of tensor a"):
        torch.ones(2, device="npu") + torch.ones(3, device="npu")
    with pytest.raises(IndexError):
        torch.ones(2, device="npu").sum(5)
