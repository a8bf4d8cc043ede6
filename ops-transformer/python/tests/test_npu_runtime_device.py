"""torch.npu as programs use it: properties, memory, copies, streams, events and generators."""
import time

import pytest
import torch

MB = 2**20


# ---- properties ----


def test_properties():
    properties = torch.npu.get_device_properties(0)
    assert properties.name == torch.npu.get_device_name(0)
    assert properties.total_memory == torch.npu.mem_get_info()[1]
    for count in (properties.cube_core_num, properties.vector_core_num, properties.L2_cache_size):
        assert count > 0
    assert torch.npu.device_count() == 1 and torch.npu.current_device() == 0
    with torch.npu.device(0):
        assert torch.empty(1, device="npu").device == torch.device("npu:0")


def test_a_device_that_is_not_there():
    with pytest.raises(RuntimeError):
        torch.npu.set_device(7)
    with pytest.raises((RuntimeError, AssertionError)):
        torch.npu.get_device_properties(7)
    assert torch.ones(3).npu().cpu().sum() == 3


def test_asking_does_not_start_the_device(run_python):
    process = run_python("""
        import torch
        print(torch.npu.is_available(), torch.npu.device_count(), torch.npu.is_initialized())
        torch.ones(1).npu()
        print(torch.npu.is_initialized())
    """)
    assert process.stdout.split() == ["True", "1", "False", "True"]


def test_without_a_visible_device(run_python):
    """The import works, and what needs a device fails; our log says why there is none."""
    process = run_python("""
        import torch
        print(torch.npu.is_available(), torch.npu.device_count(), torch.ones(2).sum().item())
        try:
            torch.ones(2, device="npu")
        except RuntimeError as error:
            print("Invalid device ID" in str(error))
    """, ASCEND_RT_VISIBLE_DEVICES="9")
    assert process.stdout.split() == ["False", "0", "2.0", "True"]
    assert "ASCEND_RT_VISIBLE_DEVICES leaves no device visible" in process.stderr


def test_utilization():
    assert 0 <= torch.npu.utilization() <= 100


# ---- memory ----


def test_memory_is_counted():
    torch.npu.synchronize()
    before = torch.npu.memory_allocated()
    torch.npu.reset_peak_memory_stats()
    tensor = torch.empty(3 * MB, dtype=torch.uint8, device="npu")
    assert torch.npu.memory_allocated() - before == 3 * MB + 512  # 32 bytes are added; then up to a multiple of 512
    small = torch.empty(1, dtype=torch.uint8, device="npu")
    assert torch.npu.memory_allocated() - before == 3 * MB + 1024
    del tensor, small
    assert torch.npu.memory_allocated() == before
    assert torch.npu.max_memory_allocated() - before == 3 * MB + 1024
    assert torch.npu.memory_reserved() >= 3 * MB
    reserved = torch.npu.memory_reserved()
    torch.npu.empty_cache()
    assert torch.npu.memory_reserved() < reserved
    assert torch.npu.memory_stats()["allocated_bytes.all.current"] == before
    assert "NPU memory summary" in torch.npu.memory_summary()


def test_memory_of_the_machine():
    """What is free is never more than the total without what was handed out, whatever other programs do."""
    block = torch.empty(256 * MB, dtype=torch.uint8, device="npu")
    free, total = torch.npu.mem_get_info()
    assert 0 < free <= total - torch.npu.memory_reserved() and torch.npu.memory_reserved() >= block.numel()


def test_out_of_memory_frees_nothing_that_is_used_and_passes():
    kept = torch.arange(1000.0).npu()
    torch.npu.empty_cache()
    reserved = torch.npu.memory_reserved()
    cached = torch.empty(64 * MB, dtype=torch.uint8, device="npu")
    del cached
    assert torch.npu.memory_reserved() >= reserved + 64 * MB
    total = torch.npu.mem_get_info()[1]
    for _ in range(3):
        with pytest.raises(torch.OutOfMemoryError, match=r"Tried to allocate .* GiB \(NPU 0; .* total capacity"):
            torch.empty(2 * total, dtype=torch.uint8, device="npu")
    assert torch.npu.memory_reserved() <= reserved, "the cache was not given back before the last attempt"
    assert torch.equal(kept.cpu(), torch.arange(1000.0))
    assert torch.equal(torch.empty(64 * MB, dtype=torch.uint8, device="npu").fill_(7)[::MB].cpu(), torch.full((64,), 7).byte())


def test_share_of_the_memory(run_python):
    run_python("""
        import torch
        total = torch.npu.mem_get_info()[1]
        torch.npu.set_per_process_memory_fraction(1e-3)
        try:
            torch.empty(total // 500, dtype=torch.uint8, device="npu")
        except torch.OutOfMemoryError as error:
            pass
        else:
            raise AssertionError("twice the share was given")
        torch.empty(total // 4000, dtype=torch.uint8, device="npu")
    """)


# ---- copies and pinned memory ----


@pytest.mark.parametrize("count", [0, 1, 511, 512, 513, 3 * MB])
@pytest.mark.parametrize("pinned", [False, True])
@pytest.mark.parametrize("non_blocking", [False, True])
def test_copies(count, pinned, non_blocking):
    host = torch.randint(0, 256, (count,), dtype=torch.uint8, generator=torch.Generator().manual_seed(count))
    host = host.pin_memory() if pinned else host
    device = host.to("npu", non_blocking=non_blocking)
    twice = device.clone()
    back = twice.to("cpu", non_blocking=non_blocking)
    torch.npu.synchronize()
    assert torch.equal(back, host)
    target = torch.empty(count, dtype=torch.uint8, pin_memory=pinned)
    target.copy_(twice, non_blocking=non_blocking)
    torch.npu.synchronize()
    assert torch.equal(target, host)


def test_copies_of_views():
    host = torch.arange(24.0).view(2, 3, 4)
    device = host.npu()
    for view in (lambda x: x.transpose(0, 2), lambda x: x[:, 1:, ::2], lambda x: x[1]):
        assert torch.equal(view(device).cpu(), view(host))
    target = torch.zeros(4, 3, 2)
    target.transpose(0, 2).copy_(device)
    assert torch.equal(target, host.transpose(0, 2))
    device.transpose(0, 1).copy_(host.transpose(0, 1) + 1)
    assert torch.equal(device.cpu(), host + 1)


def test_pinned_memory_is_reused_behind_its_copies():
    """The allocator of pinned memory waits, with events, for the copies that read a block."""
    sums = []
    for value in range(50):
        host = torch.full((100000,), float(value)).pin_memory()
        device = host.to("npu", non_blocking=True)
        del host
        sums.append(device)
    torch.npu.synchronize()
    assert [device[::999].cpu().unique().tolist() for device in sums] == [[float(value)] for value in range(50)]


# ---- streams and events ----


def test_more_streams_than_the_pool_has():
    streams = [torch.npu.Stream() for _ in range(70)]
    results = []
    for index, stream in enumerate(streams):
        with torch.npu.stream(stream):
            results.append(torch.full((100,), float(index)).to("npu", non_blocking=True))
    for stream in streams:
        torch.npu.current_stream().wait_stream(stream)
    assert [result[99].item() for result in results] == list(range(70))
    torch.npu.synchronize()
    assert all(stream.query() for stream in streams)


def test_streams_nest():
    default, one, other = torch.npu.current_stream(), torch.npu.Stream(), torch.npu.Stream()
    assert default == torch.npu.default_stream() and len({default, one, other}) == 3
    with torch.npu.stream(one):
        with torch.npu.stream(other):
            assert torch.npu.current_stream() == other
        assert torch.npu.current_stream() == one
    assert torch.npu.current_stream() == default


def test_memory_that_another_stream_still_uses():
    side = torch.npu.Stream()
    tensor = torch.ones(MB, device="npu")
    with torch.npu.stream(side):
        copy = tensor.clone()
        tensor.record_stream(side)
    address = tensor.data_ptr()
    del tensor
    other = torch.zeros(MB, device="npu")
    side.synchronize()
    assert copy.sum().item() == MB and other.sum().item() == 0 and address != 0


def test_life_of_an_event():
    event = torch.npu.Event(enable_timing=True)
    assert event.query(), "what was never recorded is complete"
    event.synchronize()
    with pytest.raises(RuntimeError):
        event.elapsed_time(torch.npu.Event(enable_timing=True))
    for _ in range(3):
        event.record()
        event.synchronize()
        assert event.query()
    # A wait outlives its event.
    side = torch.npu.Stream()
    for _ in range(100):
        with torch.npu.stream(side):
            tensor = torch.ones(10, device="npu")
        torch.npu.current_stream().wait_event(side.record_event())
    torch.npu.synchronize()
    assert tensor.sum().item() == 10


def test_ten_milliseconds():
    """A sleep takes longer on a busy machine, which the clock beside it tells; one of many tries is not disturbed."""
    shortest = float("inf")
    for _ in range(50):
        start, end = (torch.npu.Event(enable_timing=True) for _ in range(2))
        before = time.perf_counter()
        start.record()
        time.sleep(0.01)
        end.record()
        end.synchronize()
        outer = (time.perf_counter() - before) * 1e3
        elapsed = start.elapsed_time(end)
        assert 10 <= elapsed <= outer + 0.01  # the result is a float
        shortest = min(shortest, elapsed)
        if shortest < 11:
            return
    raise AssertionError(f"the shortest of 50 sleeps of 10 ms took {shortest} ms")


def test_times_between_many_events():
    events = [torch.npu.Event(enable_timing=True) for _ in range(5)]
    for event in events:
        event.record()
        time.sleep(0.001)
    torch.npu.synchronize()
    steps = [one.elapsed_time(other) for one, other in zip(events, events[1:])]
    assert all(step >= 1 for step in steps)
    # Sums of four floats of some milliseconds.
    assert sum(steps) == pytest.approx(events[0].elapsed_time(events[-1]), rel=1e-5)


# ---- generators ----


def test_states():
    torch.npu.manual_seed(5)
    assert torch.npu.initial_seed() == 5
    state = torch.npu.get_rng_state()
    assert state.device.type == "cpu" and state.dtype == torch.uint8 and state.numel() == 16
    assert state.view(torch.int64).tolist() == [5, 0]
    torch.npu.set_rng_state(torch.tensor([77, 24]).view(torch.uint8))
    assert torch.npu.initial_seed() == 77
    assert torch.npu.get_rng_state().view(torch.int64).tolist() == [77, 24]
    torch.npu.set_rng_state(state)
    assert torch.npu.get_rng_state().equal(state)


def test_seeds():
    torch.manual_seed(9)
    assert torch.npu.initial_seed() == 9, "torch.manual_seed seeds every device"
    torch.npu.manual_seed_all(10)
    assert torch.npu.get_rng_state_all()[0].view(torch.int64).tolist() == [10, 0]
    torch.npu.seed()
    first = torch.npu.initial_seed()
    torch.npu.seed()
    assert torch.npu.initial_seed() != first  # two numbers of 64 bits


def test_generators_of_their_own():
    one, other = (torch.Generator(device="npu").manual_seed(3) for _ in range(2))
    assert one.device.type == "npu" and one.initial_seed() == 3
    default = torch.npu.get_rng_state()
    assert torch.equal(torch.rand(9, generator=one, device="npu"), torch.rand(9, generator=other, device="npu"))
    assert torch.equal(torch.npu.get_rng_state(), default)
    state = one.get_state()
    drawn = torch.rand(9, generator=one, device="npu")
    other.set_state(state)
    assert torch.equal(torch.rand(9, generator=other, device="npu"), drawn)


def test_forked_state():
    torch.npu.manual_seed(4)
    with torch.random.fork_rng(devices=[0], device_type="npu"):
        inside = torch.rand(5, device="npu")
    assert torch.npu.get_rng_state().view(torch.int64).tolist() == [4, 0]
    assert torch.equal(torch.rand(5, device="npu"), inside)
