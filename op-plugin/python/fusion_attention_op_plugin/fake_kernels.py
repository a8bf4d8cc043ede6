"""What the operators return for tensors without data (torch.compile, FakeTensorMode, device "meta"): shapes and dtypes."""

import torch

STATISTIC_COPIES = 8  # each maximum and sum fills a block of 32 bytes


def _result_shapes(query, key, value, head_num, layout):
    """Shapes of the attention result and of its statistics."""
    if layout in ("BSH", "SBH"):
        key_heads = key.shape[2] * head_num // query.shape[2]
        result = [*query.shape[:2], head_num * (value.shape[2] // key_heads)]
    else:
        result = [*query.shape[:-1], value.shape[-1]]

    if layout == "TND":
        return result, [*query.shape[:2], STATISTIC_COPIES]
    batch_axis, length_axis = {"BSH": (0, 1), "SBH": (1, 0), "BSND": (0, 1), "BNSD": (0, 2)}[layout]
    return result, [query.shape[batch_axis], head_num, query.shape[length_axis], STATISTIC_COPIES]


def _random_numbers(query, keep_prob):
    """Seed, offset and numels. With dropout they are known when the operator runs only: numbers given here would be compiled
    into a program as constants, and its backward would use another mask than its forward."""
    if keep_prob == 1 or query.device.type == "meta":
        return 0, 0, 0
    unknown = torch.library.get_ctx().new_dynamic_size
    return unknown(), unknown(), unknown()


@torch.library.register_fake("npu::swa_forward")
def swa_forward(query, key, value, head_num, input_layout, pse=None, padding_mask=None, atten_mask=None, scale=1.0,
                keep_prob=1.0, *options, **named_options):
    result, statistic = _result_shapes(query, key, value, head_num, input_layout.upper())
    return (query.new_empty(result), query.new_empty(statistic, dtype=torch.float32),
            query.new_empty(statistic, dtype=torch.float32), query.new_empty([0]), *_random_numbers(query, keep_prob))


@torch.library.register_fake("npu::swa_backward")
def swa_backward(query, key, value, dy, head_num, input_layout, *, pse=None, sink=None, **options):
    def like(tensor):
        return tensor.new_empty(tensor.shape)

    return (like(query), like(key), like(value), None if pse is None else like(pse),
            query.new_empty([0], dtype=torch.float32) if sink is None else like(sink))
