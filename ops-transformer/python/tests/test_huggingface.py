"""transformers with attn_implementation="ops_transformer": models with tiny random weights give what "eager" gives."""
import copy
import importlib.util

import pytest
import torch

transformers = pytest.importorskip("transformers", reason="transformers is not installed")

from tiny_models import PADDED, SIZES, TOKENS, assert_same_training, loss_and_gradients, make_model  # noqa: E402
from transformers import masking_utils as masks  # noqa: E402

import ops_transformer.huggingface as huggingface  # noqa: E402
from ops_transformer.huggingface_masks import Visibility, make_mask  # noqa: E402

HAS_NPU = importlib.util.find_spec("torch_npu") is not None
DEVICES = ["cpu", pytest.param("npu", marks=pytest.mark.skipif(not HAS_NPU, reason="torch_npu is not installed"))]
BOTH_LAYERS = dict(sliding_window=8, layer_types=["sliding_attention", "full_attention"], head_dim=16)
CONFIGS = {
    "llama": lambda: transformers.LlamaConfig(**SIZES),
    "qwen2": lambda: transformers.Qwen2Config(**SIZES, use_sliding_window=True, sliding_window=9, max_window_layers=1),
    "mistral, windows": lambda: transformers.MistralConfig(**SIZES, sliding_window=8),
    "gemma3": lambda: transformers.Gemma3TextConfig(**SIZES, **BOTH_LAYERS, query_pre_attn_scalar=16),
    "gpt-oss, sinks": lambda: transformers.GptOssConfig(**SIZES, **BOTH_LAYERS, num_local_experts=2, num_experts_per_tok=2),
}
GAPS = PADDED.clone()
GAPS[1, 5:9] = 0
MASKS = {"full": torch.ones_like(TOKENS), "left": PADDED, "right": PADDED.flip(1), "gaps": GAPS}


@pytest.fixture(scope="module", params=CONFIGS)
def model(request):
    model = make_model(CONFIGS[request.param]())
    if "gpt-oss" in request.param:
        model.set_experts_implementation("eager")  # the default counts with integers, which PyTorch's CPU kernel does not
    for name, parameter in model.named_parameters():
        if "sinks" in name:
            torch.nn.init.normal_(parameter)
    return model


@pytest.fixture(params=DEVICES)
def device(request):
    return request.param


@pytest.fixture
def calls(monkeypatch):
    """The options of every call of our functions, with its name under "function"."""
    calls = []

    def record(name):
        function = getattr(huggingface, name)

        def recorded(*operands, **options):
            calls.append({"function": name} | {key: value for key, value in options.items() if value is not None})
            return function(*operands, **options)

        monkeypatch.setattr(huggingface, name, recorded)

    record("flash_attention")
    record("flash_attention_varlen")
    return calls


def ours(model, device="cpu", dtype=torch.float32):
    model = copy.deepcopy(model).to(device, dtype)
    model.set_attn_implementation("ops_transformer")
    return model


def assert_no_mask_of_pairs(calls):
    assert calls and not any("mask" in call and call["mask"].shape[-2] > 1 for call in calls)


# ---- language models ----


@pytest.mark.parametrize("name", MASKS)
def test_loss_and_gradients(model, device, calls, name):
    expected = loss_and_gradients(copy.deepcopy(model), MASKS[name])
    assert_same_training(loss_and_gradients(ours(model, device), MASKS[name]), expected)
    assert_no_mask_of_pairs(calls)
    packed = name in ("left", "right")  # rows of the batch without what is padded; gaps need a mask of keys
    assert {call["function"] for call in calls} == {"flash_attention_varlen" if packed else "flash_attention"}
    assert any("mask" in call for call in calls) == (name == "gaps")


@pytest.mark.parametrize("cache", [None, "static"])
@pytest.mark.parametrize("name", ["full", "left"])
def test_greedy_generation(model, device, calls, name, cache):
    options = dict(max_new_tokens=12, do_sample=False, cache_implementation=cache)
    expected = model.generate(input_ids=TOKENS, attention_mask=MASKS[name], **options)
    actual = ours(model, device).generate(input_ids=TOKENS.to(device), attention_mask=MASKS[name].to(device), **options)
    assert actual.device.type == device and torch.equal(actual.cpu(), expected)
    assert_no_mask_of_pairs(calls)


def test_prompt_in_pieces(model, device):
    """Several queries behind a history, in both kinds of layers."""
    own, cache = ours(model, device), transformers.DynamicCache(config=model.config)
    with torch.no_grad():
        expected = model(input_ids=TOKENS, attention_mask=PADDED).logits
        pieces = []
        for begin, end in ((0, 20), (20, 31), (31, 32), (32, 37)):
            pieces.append(own(input_ids=TOKENS[:, begin:end].to(device), attention_mask=PADDED[:, :end].to(device),
                              past_key_values=cache).logits.cpu())
    seen = PADDED.bool()
    torch.testing.assert_close(torch.cat(pieces, 1)[seen], expected[seen], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("use_cache", [False, True])
@pytest.mark.parametrize("told_by", ["positions", "lengths"])
def test_packed_sequences(model, device, calls, told_by, use_cache):
    """Several sequences in one row give each what it gives alone."""
    lengths = [5, 20, 12]
    options = {"position_ids": torch.cat([torch.arange(length) for length in lengths])[None].to(device)}
    if told_by == "lengths":
        ends = torch.tensor([0, 5, 25, 37], dtype=torch.int32, device=device)
        options |= {"cu_seq_lens_q": ends, "cu_seq_lens_k": ends, "max_length_q": 20, "max_length_k": 20}
    with torch.no_grad():
        packed = ours(model, device)(input_ids=TOKENS[:1].to(device), use_cache=use_cache, **options).logits.cpu()
        alone = [model(input_ids=tokens).logits for tokens in TOKENS[:1].split(lengths, 1)]
    torch.testing.assert_close(packed, torch.cat(alone, 1), rtol=1e-4, atol=1e-5)
    assert {call["function"] for call in calls} == {"flash_attention_varlen"}
    assert not any("mask" in call for call in calls)


def test_bfloat16_logits(model, device):
    with torch.no_grad():
        expected = model(input_ids=TOKENS).logits
        actual = ours(model, device, torch.bfloat16)(input_ids=TOKENS.to(device)).logits
    # Two layers of roundings to 2^-8, of logits below 1.
    torch.testing.assert_close(actual.float().cpu(), expected, rtol=0, atol=0.03)


@pytest.mark.parametrize("kind", ["bool", "numbers"])
def test_masks_of_pairs_that_the_caller_made(model, kind):
    """[batch, 1, tokens, tokens]: taken as they are."""
    seen = torch.ones(37, 37).tril().bool() & (torch.rand(37, 37, generator=torch.Generator().manual_seed(1)) > 0.3)
    seen = (seen | torch.eye(37).bool()).expand(2, 1, 37, 37)
    numbers = torch.zeros(seen.shape).masked_fill(~seen, torch.finfo(torch.float32).min)
    with torch.no_grad():
        expected = model(input_ids=TOKENS, attention_mask=numbers).logits
        actual = ours(model)(input_ids=TOKENS, attention_mask=seen if kind == "bool" else numbers).logits
    torch.testing.assert_close(actual, expected, rtol=1e-4, atol=1e-5)


@pytest.fixture(scope="module")
def mistral():
    config = CONFIGS["mistral, windows"]()
    config.attention_dropout = 0.5
    return make_model(config)


def test_dropout_only_in_training(mistral, calls):
    own = ours(mistral)
    with torch.no_grad():
        evaluated = own(input_ids=TOKENS).logits
        assert {call["dropout_p"] for call in calls} == {0.0}
        calls.clear()
        own.train()
        torch.manual_seed(1)
        trained = own(input_ids=TOKENS).logits
        torch.manual_seed(1)
        again = own(input_ids=TOKENS).logits
    assert {call["dropout_p"] for call in calls} == {0.5}
    assert torch.equal(trained, again) and not torch.equal(trained, evaluated)


def test_checkpointed_layers(mistral):
    expected = loss_and_gradients(ours(mistral), PADDED)
    own = ours(mistral)
    own.config.attention_dropout = 0.0
    for layer in own.model.layers:
        layer.self_attn.attention_dropout = 0.0
    own.gradient_checkpointing_enable()
    own.train()
    assert_same_training(loss_and_gradients(own, PADDED), expected)


@pytest.mark.parametrize("name", ["full", "left"])
def test_compiled_models(mistral, name):
    own = ours(mistral)
    torch._dynamo.reset()
    compiled = torch.compile(own, backend="aot_eager", fullgraph=True)
    seen = MASKS[name].bool()
    with torch.no_grad():
        actual = compiled(input_ids=TOKENS, attention_mask=MASKS[name], use_cache=False).logits
        expected = own(input_ids=TOKENS, attention_mask=MASKS[name]).logits
    torch.testing.assert_close(actual[seen], expected[seen], rtol=1e-4, atol=1e-5)


def test_softcap_is_refused():
    model = make_model(transformers.Gemma2Config(**SIZES, head_dim=16, attn_logit_softcapping=50.0))
    model.set_attn_implementation("ops_transformer")
    with pytest.raises(ValueError, match='softcap 50.0 is not supported.*choose "eager"'):
        model(input_ids=TOKENS)


def test_position_bias_of_packed_sequences_is_refused():
    operands = [torch.zeros(1, 2, 5, 8)] * 3
    with pytest.raises(ValueError, match='position_bias of packed sequences.*choose "eager"'):
        huggingface.attention_forward(None, *operands, Visibility(right=0, keys=5, ends=[0, 2, 5]),
                                      position_bias=torch.zeros(1, 2, 5, 5))


# ---- models of other kinds ----

PADS = dict(vocab_size=61, pad_token_id=0, bos_token_id=1, eos_token_id=2)
LAYERS = dict(num_hidden_layers=2, num_attention_heads=4, hidden_size=64, intermediate_size=96)
BART = dict(d_model=64, encoder_layers=2, decoder_layers=2, encoder_attention_heads=4, decoder_attention_heads=4,
            encoder_ffn_dim=96, decoder_ffn_dim=96, decoder_start_token_id=1)
LATENT = dict(q_lora_rank=16, kv_lora_rank=16, qk_rope_head_dim=8, qk_nope_head_dim=16, v_head_dim=16)
EXPERTS = dict(moe_intermediate_size=32, n_routed_experts=4, n_group=1, topk_group=1, num_experts_per_tok=2)
CHUNKS = dict(attention_chunk_size=8, intermediate_size_mlp=96, num_local_experts=2, num_experts_per_tok=1, head_dim=16)
OTHERS = {  # the model, whether it needs a mask of pairs
    "bert": (lambda: transformers.BertModel(transformers.BertConfig(vocab_size=61, **LAYERS)), False),
    "modernbert, two-sided windows": (lambda: transformers.ModernBertModel(transformers.ModernBertConfig(
        **PADS, **LAYERS, local_attention=10, global_attn_every_n_layers=2, cls_token_id=1, sep_token_id=2)), False),
    "bart, cross attention": (lambda: transformers.BartModel(transformers.BartConfig(**PADS, **BART)), False),
    "t5, position bias": (lambda: transformers.T5Model(transformers.T5Config(
        vocab_size=61, d_model=64, d_kv=16, num_layers=2, num_heads=4, d_ff=96, decoder_start_token_id=1)), False),
    "deepseek, narrow values": (lambda: transformers.DeepseekV3Model(transformers.DeepseekV3Config(
        **PADS, **LAYERS, **LATENT, **EXPERTS, num_key_value_heads=4)), False),
    "llama4, chunks": (lambda: transformers.Llama4TextModel(transformers.Llama4TextConfig(
        **PADS, **(LAYERS | {"num_hidden_layers": 4}), **CHUNKS, num_key_value_heads=2)), True),
}


@pytest.mark.parametrize("mask", ["full", "left", "right"])
@pytest.mark.parametrize("kind", OTHERS)
def test_other_models(kind, mask, calls):
    make, pairs = OTHERS[kind]
    torch.manual_seed(6)
    model = make().eval()
    for parameter in model.parameters():  # those that their class leaves as they were in memory
        if not parameter.isfinite().all() or parameter.abs().max() > 100:
            torch.nn.init.normal_(parameter, std=0.02)
    model.set_attn_implementation("eager")
    inputs = {"input_ids": TOKENS, "attention_mask": MASKS[mask]}
    seen = MASKS[mask].bool()
    if model.config.is_encoder_decoder:
        inputs["decoder_input_ids"], seen = TOKENS.flip(1)[:, :30], torch.ones(2, 30).bool()
    with torch.no_grad():
        expected, actual = (each(**inputs).last_hidden_state for each in (model, ours(model)))
    # Sums in other orders, of features near 1 with some near 4.
    torch.testing.assert_close(actual[seen], expected[seen], rtol=1e-4, atol=2e-5)
    assert any("mask" in call and call["mask"].shape[-2] > 1 for call in calls) == pairs


# ---- what is read from the functions that define a mask ----

POSITIONS = torch.tensor([[0, 1, 2, 0, 1, 2, 3, 4, 0, 1]])
SEQUENCES = masks.find_packed_sequence_indices(POSITIONS)
KEYS_10 = torch.arange(10) >= torch.tensor([0, 3])[:, None]


def packed(function):
    return masks.and_masks(masks.remap_positions_for_packed_sequence(function, POSITIONS),
                           masks.packed_sequence_mask_function(SEQUENCES))


RULES = {  # arguments of a mask function
    "causal": dict(q_length=10, kv_length=10),
    "causal behind a history": dict(q_length=4, kv_length=10, q_offset=6),
    "causal in a static cache": dict(q_length=4, kv_length=10, q_offset=3),
    "causal in an empty static cache": dict(q_length=4, kv_length=10, q_offset=torch.tensor(0)),
    "window": dict(q_length=10, kv_length=10, mask_function=masks.sliding_window_causal_mask_function(4)),
    "window of a cache that forgot": dict(q_length=2, kv_length=5, q_offset=9, kv_offset=6,
                                          mask_function=masks.sliding_window_causal_mask_function(4)),
    "everything": dict(q_length=6, kv_length=10, mask_function=masks.bidirectional_mask_function),
    "two-sided window": dict(q_length=10, kv_length=10, mask_function=masks.sliding_window_bidirectional_mask_function(3)),
    "padding": dict(q_length=10, kv_length=10, attention_mask=KEYS_10),
    "padding in a static cache": dict(q_length=2, kv_length=10, q_offset=5, attention_mask=KEYS_10[:, :7]),
    "padding of keys": dict(q_length=6, kv_length=10, attention_mask=KEYS_10,
                            mask_function=masks.bidirectional_mask_function),
    "padding that a cache forgot": dict(q_length=2, kv_length=5, q_offset=8, kv_offset=5, attention_mask=KEYS_10,
                                        mask_function=masks.sliding_window_causal_mask_function(4)),
    "packed": dict(q_length=10, kv_length=10, mask_function=packed(masks.causal_mask_function)),
    "packed, window": dict(q_length=10, kv_length=10, mask_function=packed(masks.sliding_window_causal_mask_function(2))),
}
FOR_MASKS_OF_PAIRS = {
    "chunks": dict(q_length=10, kv_length=10, mask_function=masks.chunked_causal_mask_function(4, torch.zeros(2).long())),
    "one more rule": dict(q_length=10, kv_length=10, mask_function=masks.and_masks(
        masks.causal_mask_function, lambda batch, head, query, key: key != 3)),
    "or": dict(q_length=10, kv_length=10, mask_function=masks.or_masks(
        masks.causal_mask_function, masks.sliding_window_bidirectional_overlay(2))),
    "blocks": dict(q_length=10, kv_length=10, mask_function=masks.or_masks(
        masks.causal_mask_function, masks.blockwise_overlay(SEQUENCES.expand(2, -1)))),
    "two-sided window behind a history": dict(q_length=4, kv_length=10, q_offset=3,
                                              mask_function=masks.sliding_window_bidirectional_mask_function(3)),
    "positions without sequences": dict(q_length=10, kv_length=10, mask_function=masks.remap_positions_for_packed_sequence(
        masks.causal_mask_function, POSITIONS.expand(2, -1))),
}


def pairs_of(visibility, batch, queries, kv_length):
    """bool [batch, 1, queries, keys], by what the class says."""
    keys = torch.arange(kv_length)
    at = torch.arange(queries)[:, None] + visibility.keys - queries
    seen = (keys < visibility.keys).expand(batch, 1, queries, -1)
    if visibility.left is not None:
        seen = seen & (keys >= at - visibility.left)
    if visibility.right is not None:
        seen = seen & (keys <= at + visibility.right)
    if visibility.key_mask is not None:
        padding = torch.nn.functional.pad(visibility.key_mask, (0, kv_length - visibility.keys))
        seen = seen & padding[:, None, None]
    if visibility.ends is not None:
        lengths = torch.tensor(visibility.ends).diff()
        of_token = torch.arange(len(lengths)).repeat_interleave(lengths).view(-1, kv_length)
        seen = seen & (of_token[:, None, :, None] == of_token[:, None, None, :])
    return seen


@pytest.mark.parametrize("name", RULES)
def test_rules_that_are_read(name):
    arguments = RULES[name] | {"batch_size": 1 if "packed" in name else 2}
    visibility = make_mask(**arguments)
    assert isinstance(visibility, Visibility)
    expected = masks.sdpa_mask(**arguments, allow_is_causal_skip=False)
    actual = pairs_of(visibility, expected.shape[0], arguments["q_length"], arguments["kv_length"])
    assert torch.equal(actual, expected)
    assert make_mask(**arguments | {"attention_mask": visibility}) is visibility


@pytest.mark.parametrize("name", FOR_MASKS_OF_PAIRS)
def test_rules_that_need_a_mask_of_pairs(name):
    arguments = FOR_MASKS_OF_PAIRS[name] | {"batch_size": 2}
    assert torch.equal(make_mask(**arguments), masks.sdpa_mask(**arguments, allow_is_causal_skip=False))


def test_import_registers_and_may_be_repeated():
    assert transformers.AttentionInterface()["ops_transformer"] is huggingface.attention_forward
    huggingface.register()
    assert transformers.AttentionMaskInterface()["ops_transformer"] is make_mask
