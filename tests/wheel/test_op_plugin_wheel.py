"""The wheel of op-plugin beside that of the libraries, in an environment that has nothing else of the project."""

import pytest

PROGRAM = """
q, k, v = (torch.full((1, 4, 33, 64), value, device="npu") for value in (1.0, 0.5, 3.0))
mask = torch.ones(2048, 2048, dtype=torch.bool).triu(1).npu()
band = dict(head_num=4, input_layout="BNSD", atten_mask=mask, sparse_mode=4, pre_tockens=7, next_tockens=0)
out, maxima, sums, _, seed, offset, numels = torch_npu.swa_forward(q, k, v, scale=0.125, **band)
print(round(out.mean().item(), 5), sums[0, 0, :, 0].round().int().tolist() == [min(row + 1, 8) for row in range(33)])
dq, dk, dv, dpse, dsink = torch.ops.npu.swa_backward(
    q, k, v, torch.ones_like(out), scale_value=0.125, softmax_max=maxima, softmax_sum=sums, attention_in=out, **band)
print(round(dv.sum().item(), 2), torch_npu.__file__.count("site-packages"))
"""


@pytest.mark.parametrize("imports", ["import torch, torch_npu", "import torch_npu, torch"])
def test_swa_without_set_env(environment_with_op_plugin, imports):
    """Values are all 3, so their averages are; each row sees up to 8 keys of one weight; the weights of all rows are 1."""
    done = environment_with_op_plugin("-c", imports + PROGRAM)
    assert done.stdout.splitlines() == ["3.0 True", f"{1.0 * 4 * 33 * 64} 1"]


def test_checker_agrees(environment_with_op_plugin):
    assert environment_with_op_plugin("-m", "ops_transformer", "doctor").stdout.splitlines()[-1] == "torch-npu can run here"
