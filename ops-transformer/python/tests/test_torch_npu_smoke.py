"""The unmodified torch_npu wheel on our libraries: it imports, its device works, and attention gives the right numbers.

Run with the environment of an installed tree:

    source <prefix>/set_env.sh && python -m pytest test_torch_npu_smoke.py

What npu tensors hold is prepared and compared on the CPU, so that other operators on them cannot hide a mistake.
"""
import importlib.util
import os
import subprocess
import sys
import textwrap
import time

import pytest

if importlib.util.find_spec("torch_npu") is None:
    pytest.skip("torch_npu is not installed", allow_module_level=True)
if "ASCEND_HOME_PATH" not in os.environ:
    raise RuntimeError("ASCEND_HOME_PATH is not set: source set_env.sh of the installed libraries first")

import torch  # noqa: E402  (loads torch_npu and with it our libraries)
import torch_npu  # noqa: E402

NPU = torch.device("npu:0")
SEED = 20240607


def run_python(code):
    """A new interpreter with our environment; the finished process with its texts."""
    return subprocess.run([sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True, timeout=300)


# ---- import, device, exit -------------------------------------------------------------------------------------------


def test_import_is_silent():
    process = run_python("import torch; assert torch.npu.is_available()")
    assert process.returncode == 0, process.stderr
    assert process.stderr == ""
    assert process.stdout == ""


def test_device_is_there():
    assert torch.npu.is_available()
    assert torch.npu.device_count() >= 1
    assert torch.npu.current_device() == 0
    properties = torch.npu.get_device_properties(0)
    assert properties.name == os.environ.get("ASCEND_CPU_SOC", "Ascend910B2")
    free, total = torch.npu.mem_get_info()
    assert 0 < free <= total
    assert properties.total_memory == total


def test_exit_with_live_objects():
    process = run_python("""
        import torch
        tensor = torch.arange(1000.0).npu()
        pinned = torch.ones(10).pin_memory()
        stream = torch.npu.Stream()
        event = torch.npu.Event(enable_timing=True)
        with torch.npu.stream(stream):
            other = tensor.clone()
            event.record()
        never_recorded = torch.npu.Event()
        print(float(other[7].cpu()))
    """)
    assert process.returncode == 0, process.stderr
    assert process.stdout.split()[-1] == "7.0"
    for word in ("Traceback", "terminate", "Segmentation", "ERROR"):
        assert word not in process.stderr, process.stderr


def test_forked_child_uses_the_device():
    """fork() is for processes that have not used the device yet: the wheel refuses later ones itself."""
    process = run_python("""
        import multiprocessing
        import torch

        def child(queue):
            queue.put(torch.full((3,), 2.0).npu().cpu().sum().item())

        context = multiprocessing.get_context("fork")
        queue = context.Queue()
        worker = context.Process(target=child, args=(queue,))
        worker.start()
        print(queue.get(timeout=120), torch.ones(4).npu().cpu().sum().item())
        worker.join(120)
        assert worker.exitcode == 0
    """)
    assert process.returncode == 0, process.stderr
    assert process.stdout.split()[-2:] == ["6.0", "4.0"]


# ---- memory ---------------------------------------------------------------------------------------------------------


def random_bits(dtype, count):
    """A tensor of the type with arbitrary bits: not-a-number, subnormals and all."""
    generator = torch.Generator().manual_seed(SEED)
    if dtype == torch.bool:
        return torch.randint(0, 2, (count,), generator=generator).bool()
    size = torch.empty(0, dtype=dtype).element_size()
    return torch.randint(0, 256, (count * size,), dtype=torch.uint8, generator=generator).view(dtype)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16, torch.float64, torch.int64,
                                   torch.int32, torch.int8, torch.uint8, torch.bool])
def test_copies_keep_every_bit(dtype):
    host = random_bits(dtype, 12345)
    device = host.npu()
    assert device.device == NPU and device.dtype == dtype and device.shape == host.shape
    for back in (device.cpu(), device.clone().cpu()):
        assert back.device.type == "cpu"
        assert torch.equal(back.view(torch.uint8), host.view(torch.uint8))


def test_device_copy_is_a_copy():
    device = torch.zeros(100).npu()
    copy = device.clone()
    device.copy_(torch.ones(100))
    assert torch.equal(device.cpu(), torch.ones(100))
    assert torch.equal(copy.cpu(), torch.zeros(100))
    assert copy.data_ptr() != device.data_ptr()


def test_item():
    assert torch.tensor([2.5]).npu().item() == 2.5
    assert torch.tensor(-(2**40)).npu().item() == -(2**40)


def test_empty_and_views():
    device = torch.empty(3, 4, device="npu")
    assert device.shape == (3, 4) and device.is_contiguous()
    numbers = torch.arange(24.0).npu()
    view = numbers[8:20].view(3, 4)
    assert torch.equal(view.cpu(), torch.arange(8.0, 20.0).view(3, 4))


def test_pinned_memory():
    host = torch.arange(100000.0).pin_memory()
    assert host.is_pinned()
    assert not torch.arange(4.0).is_pinned()
    device = host.to("npu", non_blocking=True)
    torch.npu.synchronize()
    back = device.to("cpu", non_blocking=True)
    torch.npu.synchronize()
    assert torch.equal(back, host)


def test_out_of_memory_is_an_exception_and_passes():
    with pytest.raises(torch.OutOfMemoryError, match="out of memory"):
        torch.empty(2**50, dtype=torch.uint8, device="npu")
    assert torch.equal(torch.ones(8).npu().cpu(), torch.ones(8))


# ---- streams and events ---------------------------------------------------------------------------------------------


def test_streams_and_events():
    host = torch.arange(5000.0)
    side = torch.npu.Stream()
    assert side != torch.npu.current_stream()
    with torch.npu.stream(side):
        assert torch.npu.current_stream() == side
        device = host.npu()
        done = side.record_event()
    torch.npu.current_stream().wait_event(done)
    copy = device.clone()
    side.synchronize()
    done.synchronize()
    torch.npu.synchronize()
    assert side.query() and done.query()
    assert torch.equal(copy.cpu(), host)


def test_elapsed_time():
    start = torch.npu.Event(enable_timing=True)
    end = torch.npu.Event(enable_timing=True)
    before = time.perf_counter()
    start.record()
    inner = time.perf_counter()
    time.sleep(0.02)
    inner = time.perf_counter() - inner
    end.record()
    end.synchronize()
    outer = time.perf_counter() - before
    # The two marks lie between the two pairs of clock readings. 0.01 ms: the float of the result and two clocks.
    assert inner * 1e3 - 0.01 <= start.elapsed_time(end) <= outer * 1e3 + 0.01


# ---- attention ------------------------------------------------------------------------------------------------------
# Unit roundoff of the element types, rounding to nearest.
ROUNDOFF = {torch.float32: 2.0**-24, torch.float16: 2.0**-11, torch.bfloat16: 2.0**-8}
DTYPES = list(ROUNDOFF)
QUERY_HEADS, KEY_HEADS, HEAD_DIM = 4, 2, 64
SCALE = HEAD_DIM**-0.5


def split_heads(tensor, heads, layout):
    """[B, N, S, D] of a tensor in one of the batched layouts."""
    if layout == "BNSD":
        return tensor
    if layout == "BSND":
        return tensor.permute(0, 2, 1, 3)
    if layout == "BSH":
        return tensor.unflatten(-1, (heads, -1)).permute(0, 2, 1, 3)
    return tensor.unflatten(-1, (heads, -1)).permute(1, 2, 0, 3)  # SBH


def join_heads(tensor, layout):
    """The layout's tensor of [B, N, S, D], contiguous."""
    if layout == "BNSD":
        return tensor.contiguous()
    if layout == "BSND":
        return tensor.permute(0, 2, 1, 3).contiguous()
    if layout == "BSH":
        return tensor.permute(0, 2, 1, 3).flatten(2).contiguous()
    return tensor.permute(2, 0, 1, 3).flatten(2).contiguous()  # SBH


def reference(query, key, value, causal):
    """Attention in double by its definition, for [B, N, S, D] with fewer key heads than query heads.

    Returns output, row maximum, row sum, and the quantities of the bounds: A, the largest sum of |scale * q_d * k_d|,
    and the largest |v|.
    """
    query, key, value = query.double(), key.double(), value.double()
    group = query.shape[1] // key.shape[1]
    key, value = key.repeat_interleave(group, 1), value.repeat_interleave(group, 1)
    scores = SCALE * query @ key.transpose(-1, -2)
    condition = (SCALE * query.abs() @ key.abs().transpose(-1, -2)).max().item()
    if causal:  # the last query sees the last key
        rows, columns = scores.shape[-2:]
        hidden = torch.ones(rows, columns, dtype=torch.bool).triu(columns - rows + 1)
        scores = scores.masked_fill(hidden, -torch.inf)
    maximum = scores.amax(-1)
    weights = (scores - maximum[..., None]).exp()
    total = weights.sum(-1)
    return (weights / total[..., None]) @ value, maximum, total, condition, value.abs().max().item()


def float_factor(condition, keys):
    """Relative error of fp32 attention in units of the largest |v|: 40 roundings for exponential, quotient and the two
    products, 4 A because an error of the score is one of the exponent, and a chain of sums for every 512 keys."""
    return 2.0**-24 * (40 + 4 * condition + keys / 512)


def output_bound(dtype, condition, keys, largest_value):
    bound = float_factor(condition, keys) * largest_value
    if dtype != torch.float32:
        # One rounding of the output, which is at most the largest |v|, and one of the probabilities before the second
        # product, which counts twice: they are in the numerator and, rounded or not, in the sum below it.
        bound += 3 * ROUNDOFF[dtype] * largest_value
    return bound


def check_output(name, actual, expected, bound):
    error = (actual.double() - expected).abs().max().item()
    print(f"{name}: error {error:.3g}, bound {bound:.3g}")
    assert actual.shape == expected.shape
    assert error <= bound, f"{name}: error {error:.3g} exceeds {bound:.3g} (seed {SEED})"


def check_statistics(dtype, softmax_max, softmax_sum, maximum, total, condition, keys):
    """Statistics hold eight equal copies of each row's number in the last dimension."""
    for statistic in (softmax_max, softmax_sum):
        assert statistic.dtype == torch.float32
        assert statistic.shape == (*maximum.shape, 8)
        assert torch.equal(statistic, statistic[..., :1].expand_as(statistic))
    # A score is a chain of HEAD_DIM products, its error at most that many roundings of A; four more for its own value.
    score_error = 2.0**-24 * (HEAD_DIM * condition + 4 * maximum.abs().max().item())
    check_output("softmax_max", softmax_max[..., 0], maximum, score_error)
    relative = (softmax_sum[..., 0].double() / total - 1).abs().max().item()
    # The sum is taken relative to the computed maximum, so that the score's error is an error of the sum as well.
    # 16-bit types may round the weights before they are summed.
    bound = (float_factor(condition, keys) if dtype == torch.float32 else 1e-4) + score_error
    assert relative <= bound, f"softmax_sum: relative error {relative:.3g} exceeds {bound:.3g} (seed {SEED})"


def causal_arguments(causal):
    if not causal:
        return {}
    mask = torch.ones(2048, 2048, dtype=torch.bool).triu(1)
    return {"sparse_mode": 3, "atten_mask": mask.npu()}


@pytest.mark.parametrize("causal", [False, True], ids=["full", "causal"])
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("layout", ["BNSD", "BSND", "BSH", "SBH"])
def test_attention(layout, dtype, causal):
    batch, queries, keys = 2, 70, 133
    generator = torch.Generator().manual_seed(SEED)

    def make(heads, length):
        return torch.randn(batch, heads, length, HEAD_DIM, generator=generator).to(dtype)

    query, key, value = make(QUERY_HEADS, queries), make(KEY_HEADS, keys), make(KEY_HEADS, keys)
    expected, maximum, total, condition, largest = reference(query, key, value, causal)
    results = torch_npu.npu_fusion_attention(*(join_heads(t, layout).npu() for t in (query, key, value)), QUERY_HEADS,
                                             layout, scale=SCALE, **causal_arguments(causal))
    assert results[0].device == NPU and results[0].dtype == dtype
    output = split_heads(results[0].cpu(), QUERY_HEADS, layout)
    check_output("output", output, expected, output_bound(dtype, condition, keys, largest))
    check_statistics(dtype, results[1].cpu(), results[2].cpu(), maximum, total, condition, keys)


@pytest.mark.parametrize("causal", [False, True], ids=["full", "causal"])
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_attention_with_packed_sequences(dtype, causal):
    lengths = [(5, 9), (70, 133), (1, 64), (33, 33)]
    generator = torch.Generator().manual_seed(SEED)

    def make(heads, total):
        return torch.randn(total, heads, HEAD_DIM, generator=generator).to(dtype)

    query_ends = torch.tensor([q for q, _ in lengths]).cumsum(0).tolist()
    key_ends = torch.tensor([k for _, k in lengths]).cumsum(0).tolist()
    query = make(QUERY_HEADS, query_ends[-1])
    key, value = make(KEY_HEADS, key_ends[-1]), make(KEY_HEADS, key_ends[-1])
    results = torch_npu.npu_fusion_attention(query.npu(), key.npu(), value.npu(), QUERY_HEADS, "TND", scale=SCALE,
                                             actual_seq_qlen=query_ends, actual_seq_kvlen=key_ends,
                                             **causal_arguments(causal))
    output = results[0].cpu()
    assert output.shape == query.shape
    for (queries, keys), query_end, key_end in zip(lengths, query_ends, key_ends):
        rows, columns = slice(query_end - queries, query_end), slice(key_end - keys, key_end)

        def dense(packed, part):  # [T, N, ...] -> [1, N, S, ...]
            return packed[part].transpose(0, 1)[None]

        def statistics(result, part):  # declared [T, N, 8], but stored as one block [N, S, 8] a sequence
            return result.cpu()[part].reshape(1, QUERY_HEADS, queries, 8)

        expected, maximum, total, condition, largest = reference(dense(query, rows), dense(key, columns),
                                                                 dense(value, columns), causal)
        check_output(f"output of {queries} x {keys}", dense(output, rows), expected,
                     output_bound(dtype, condition, keys, largest))
        check_statistics(dtype, statistics(results[1], rows), statistics(results[2], rows), maximum, total, condition,
                         keys)


# ---- errors ---------------------------------------------------------------------------------------------------------


def attention_with_head_dim(head_dim):
    tensor = torch.ones(1, 1, 16, head_dim).npu()
    return torch_npu.npu_fusion_attention(tensor, tensor, tensor, 1, "BNSD")[0].cpu()


def test_error_text_reaches_python_and_the_process_goes_on():
    for _ in range(2):
        with pytest.raises(RuntimeError) as caught:
            attention_with_head_dim(769)
        text = str(caught.value)
        assert "aclnnFlashAttentionScore" in text and "161002" in text, text
        assert "EZ1001" in text and "769" in text and "768" in text, text
        # Equal values: the average is exact, whatever the weights, up to the rounding of their sum.
        torch.testing.assert_close(attention_with_head_dim(64), torch.ones(1, 1, 16, 64), rtol=2.0**-22, atol=0)


def test_a_missing_operator_says_which():
    with pytest.raises(RuntimeError, match=r"Mish: operator is not available on the CPU engine \(inputs: .*2,16"):
        torch_npu.npu_mish(torch.ones(2, 16).npu())
    assert torch.equal(torch.ones(8).npu().cpu(), torch.ones(8))
