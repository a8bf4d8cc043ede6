"""Every wrong argument: the error's type, and that it names argument, value and rule."""
import pytest
import torch

from ops_transformer import flash_attention, flash_attention_varlen

Q, K = torch.randn(2, 4, 6, 16), torch.randn(2, 2, 9, 16)
T = torch.randn(9, 4, 16)
MASK = torch.ones(6, 9, dtype=torch.bool)

DENSE = [
    (dict(q=[1]), TypeError, "q is a list: it has to be a tensor"),
    (dict(k=None), TypeError, "k is a NoneType"),
    (dict(q=Q.double()), TypeError, "q is torch.float64: it has to be float32, float16 or bfloat16"),
    (dict(k=K.half()), TypeError, "k is torch.float16: it has to be torch.float32 like q"),
    (dict(v=K.to("meta")), ValueError, "v is on meta, q on cpu"),
    (dict(q=Q[0]), ValueError, r"q has shape \(4, 6, 16\): BNSD has 4 dimensions.*unflatten"),
    (dict(q=Q.to_sparse()), TypeError, "q has layout torch.sparse_coo: it has to be torch.strided"),
    (dict(mask=MASK.to_sparse()), TypeError, "mask has layout torch.sparse_coo"),
    (dict(k=torch.nested.nested_tensor([K[0, 0], K[1, 0]])), TypeError, "k is a nested tensor.*flash_attention_varlen"),
    (dict(mask=torch.ones(2, 9, dtype=torch.bool)), ValueError, r"mask has shape \(2, 9\).*\[batch, keys\] does so as \[:, None, None\]"),
    (dict(k=K[:1], v=K[:1]), ValueError, "q has batch 2, k 1 and v 1"),
    (dict(v=K[:, :, :5]), ValueError, r"k has shape \(2, 2, 9, 16\), v \(2, 2, 5, 16\)"),
    (dict(k=Q[:, :3], v=Q[:, :3]), ValueError, "q has 4 heads, k 3: the heads of q have to be a multiple"),
    (dict(k=K[:, :0], v=K[:, :0]), ValueError, "q has 4 heads, k 0"),
    (dict(k=K[..., :8]), ValueError, "q has head dim 16, k 8: they have to be equal"),
    (dict(q=torch.ones(1, 1, 1, 769), k=torch.ones(1, 1, 1, 769), v=torch.ones(1, 1, 1, 8)), ValueError, "head dim 769.*from 1 to 768"),
    (dict(q=Q[..., :8], k=K[..., :8]), ValueError, "v has head dim 16: it has to be from 1 to 8"),
    (dict(scale="1"), TypeError, "scale is '1', a str"),
    (dict(scale=True), TypeError, "scale is True"),
    (dict(scale=MASK), TypeError, "^scale is a Tensor: it has to be float or int$"),
    (dict(scale=float("nan")), ValueError, "scale is nan: it has to be finite"),
    (dict(scale=1e39), ValueError, r"scale is 1e\+39"),
    (dict(causal=1), TypeError, "causal is 1, a int: it has to be bool"),
    (dict(window=3), TypeError, r"window is 3: it has to be a pair \(left, right\)"),
    (dict(window=(1, 2, 3)), TypeError, "pair"),
    (dict(window=(1.0, 0)), TypeError, "a side of window is 1.0"),
    (dict(window=(-1, 0)), ValueError, r"window is \(-1, 0\).*None is no limit"),
    (dict(window=(4, 2), causal=True), ValueError, r"window is \(4, 2\) and causal is True"),
    (dict(mask=MASK.float()), TypeError, "mask is torch.float32.*numbers that are added to the scores go to bias"),
    (dict(mask=MASK.byte()), TypeError, "mask is torch.uint8"),
    (dict(mask=MASK.to("meta")), ValueError, "mask is on meta"),
    (dict(mask=MASK.T), ValueError, r"mask has shape \(9, 6\): it has to broadcast to \(2, 4, 6, 9\)"),
    (dict(mask=MASK[None, None, None]), ValueError, r"mask has shape \(1, 1, 1, 6, 9\)"),
    (dict(mask=[[True]]), TypeError, "mask is a list"),
    (dict(bias=MASK), TypeError, "bias is torch.bool: it has to be torch.float32 like q"),
    (dict(bias=torch.zeros(3, 6, 9)), ValueError, r"bias has shape \(3, 6, 9\)"),
    (dict(alibi_slopes=torch.zeros(4)), ValueError, "alibi_slopes with 6 queries and 9 keys"),
    (dict(q=Q, k=Q, v=Q, alibi_slopes=torch.zeros(3)), ValueError, r"alibi_slopes has shape \(3,\): it has to be \(4,\) or \(2, 4\)"),
    (dict(q=Q, k=Q, v=Q, alibi_slopes=torch.zeros(4).half()), TypeError, "alibi_slopes is torch.float16"),
    (dict(q=Q, k=Q, v=Q, alibi_slopes=torch.zeros(4, requires_grad=True)), ValueError, "alibi_slopes requires a gradient"),
    (dict(q=Q, k=Q, v=Q, alibi_slopes=torch.zeros(4), bias=torch.zeros(6, 6)), ValueError, "bias and alibi_slopes are both given"),
    (dict(dropout_p=1.0), ValueError, "dropout_p is 1.0: it has to be at least 0 and below 1"),
    (dict(dropout_p=-0.1), ValueError, "dropout_p is -0.1"),
    (dict(dropout_p=float("nan")), ValueError, "dropout_p is nan"),
    (dict(dropout_p=None), TypeError, "dropout_p is None"),
    (dict(sink=torch.zeros(2)), ValueError, r"sink has shape \(2,\): it has to be \(4,\)"),
    (dict(sink=torch.zeros(4).half()), TypeError, "sink is torch.float16"),
    (dict(layout="BSH"), ValueError, "layout is 'BSH': it can be BNSD or BSND.*unflatten"),
    (dict(layout="TND"), ValueError, "layout is 'TND'.*flash_attention_varlen"),
    (dict(layout=None), ValueError, "layout is None"),
    (dict(return_softmax_stats=1), TypeError, "return_softmax_stats is 1"),
    (dict(atten_mask=MASK, causal=True), ValueError, "atten_mask together with causal, window or mask"),
    (dict(sparse_mode=3, mask=MASK), ValueError, "sparse_mode together with"),
    (dict(sparse_mode=9), ValueError, "sparse_mode is 9: it has to be from 0 to 6"),
    (dict(sparse_mode=7), ValueError, "sparse_mode is 7: it has to be from 0 to 6; 7 and 8 are for packed"),
    (dict(sparse_mode=4, pre_tokens=2**63), ValueError, "pre_tokens is 9223372036854775808: it has to fit into 64 bits"),
    (dict(sparse_mode=6, prefix=[1, -2**64]), ValueError, "an entry of prefix is -18446744073709551616"),
    (dict(sparse_mode="3"), TypeError, "sparse_mode is '3'"),
    (dict(sparse_mode=1), ValueError, "sparse_mode is 1, which needs atten_mask"),
    (dict(pre_tokens=4), ValueError, "pre_tokens is 4, but sparse_mode 0 without atten_mask does not look at it"),
    (dict(sparse_mode=3, next_tokens=0), ValueError, "next_tokens is 0, but sparse_mode 3 does not look at it"),
    (dict(sparse_mode=4, pre_tokens=1.5), TypeError, "pre_tokens is 1.5"),
    (dict(sparse_mode=4, atten_mask=MASK), ValueError, r"atten_mask has shape \(6, 9\): with sparse_mode 4"),
    (dict(atten_mask=MASK.float()), TypeError, "atten_mask is torch.float32: it has to be torch.bool or torch.uint8"),
    (dict(sparse_mode=6), ValueError, "sparse_mode is 6, which needs prefix: a list of 2 lengths"),
    (dict(sparse_mode=6, prefix=[1]), ValueError, "prefix has 1 lengths: it has to have 2"),
    (dict(sparse_mode=6, prefix=3), TypeError, "prefix is 3"),
    (dict(sparse_mode=3, prefix=[1, 2]), ValueError, r"prefix is \[1, 2\], but sparse_mode 3"),
    (dict(sparse_mode=6, prefix=[1, 20]), ValueError, "prefix"),  # from here on the operator's own sentences
    (dict(atten_mask=MASK[:2]), ValueError, "attenMask"),
    (dict(sparse_mode=4, pre_tokens=-20), ValueError, "preTokens"),
]


@pytest.mark.parametrize("changes, error, text", DENSE, ids=[text[:40] for _, _, text in DENSE])
def test_dense(changes, error, text):
    arguments = {"q": Q, "k": K, "v": K, **changes}
    with pytest.raises(error, match=text):
        flash_attention(**arguments)


PACKED = [
    (dict(q=Q), ValueError, r"q has shape \(2, 4, 6, 16\): TND has 3 dimensions"),
    (dict(cu_seqlens_q=[1, 9]), ValueError, "cu_seqlens_q begins with 1: running totals of lengths begin with 0"),
    (dict(cu_seqlens_k=[0, 9, 4]), ValueError, r"cu_seqlens_k\[2\] is 4, less than 9 before it"),
    (dict(cu_seqlens_k=[0, 10]), ValueError, "cu_seqlens_k ends with 10, but k has 9 tokens"),
    (dict(cu_seqlens_q=[0, 4, 9]), ValueError, "cu_seqlens_q has 2 sequences, cu_seqlens_k 1"),
    (dict(cu_seqlens_q=[]), ValueError, "cu_seqlens_q has shape"),
    (dict(cu_seqlens_q=9), TypeError, "cu_seqlens_q is a int"),
    (dict(cu_seqlens_q=[0, 9.0]), TypeError, "an entry of cu_seqlens_q is 9.0"),
    (dict(cu_seqlens_q=[0, 2**63]), ValueError, "an entry of cu_seqlens_q is 9223372036854775808: it has to fit into 64 bits"),
    (dict(cu_seqlens_q=torch.tensor([0, 9], device="meta")), ValueError, "a tensor is on meta, query on cpu"),
    (dict(cu_seqlens_q=torch.tensor([0.0, 9.0])), TypeError, "cu_seqlens_q is torch.float32"),
    (dict(cu_seqlens_q=torch.tensor([[0, 9]])), ValueError, r"cu_seqlens_q has shape \(1, 2\)"),
    (dict(mask=torch.ones(9, 9, dtype=torch.bool), causal=True), ValueError, "mask is given together with causal or window"),
    (dict(mask=torch.ones(1, 1, 9, 9, dtype=torch.bool)), ValueError, r"mask has shape \(1, 1, 9, 9\): it has to be \[longest Sq"),
    (dict(mask=torch.ones(3, 3, dtype=torch.bool)), ValueError, "attenMask"),
    (dict(sparse_mode=5, atten_mask=MASK), ValueError, "sparse_mode is 5: it has to be from 0 to 8, but not 5"),
    (dict(cu_seqlens_q=[0, 9], cu_seqlens_k=[0, 5], causal=True), ValueError, "batch 0 has Sq 9 > Skv 5"),
    (dict(cu_seqlens_q=[0, 4], cu_seqlens_k=[0, 5], alibi_slopes=torch.ones(4)), ValueError, "alibi_slopes: sequence 0 has 4 queries and 5 keys"),
]


@pytest.mark.parametrize("changes, error, text", PACKED, ids=[text[:40] for _, _, text in PACKED])
def test_packed(changes, error, text):
    arguments = {"q": T, "k": T, "v": T, "cu_seqlens_q": [0, 9], "cu_seqlens_k": [0, 9], **changes}
    with pytest.raises(error, match=text):
        flash_attention_varlen(**arguments)


def test_the_process_works_on_after_an_error():
    expected = flash_attention(Q, K, K)
    with pytest.raises(ValueError):
        flash_attention(Q, K, K, sparse_mode=4, pre_tokens=-20)
    assert torch.equal(flash_attention(Q, K, K), expected)


def test_unknown_arguments_are_refused():
    with pytest.raises(TypeError, match="softcap"):
        flash_attention(Q, K, K, softcap=3.0)


def test_totals_in_lists_do_not_follow_the_default_device():
    expected = flash_attention_varlen(T, T, T, [0, 4, 9], [0, 4, 9])
    with torch.device("meta"):
        assert torch.equal(flash_attention_varlen(T, T, T, [0, 4, 9], [0, 4, 9]), expected)


def test_slopes_that_could_learn_are_taken_where_nothing_learns():
    slopes = torch.ones(4, requires_grad=True)
    with torch.no_grad():
        assert torch.equal(flash_attention(Q, Q, Q, alibi_slopes=slopes), flash_attention(Q, Q, Q, alibi_slopes=slopes.detach()))
