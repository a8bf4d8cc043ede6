"""The vendor's torch-npu, unmodified, on a machine without an NPU: one attention call, checked in double precision."""

import torch
import torch_npu

torch.manual_seed(0)
q, k, v = (torch.randn(1, 8, 512, 64, dtype=torch.float16) for _ in range(3))

out = torch_npu.npu_fusion_attention(q.npu(), k.npu(), v.npu(), head_num=8, input_layout="BNSD", scale=1.0 / 8.0)[0]
print(out.shape, out.dtype, out.device)

weights = torch.softmax(q.double() @ k.double().transpose(-1, -2) / 8.0, dim=-1)
difference = (out.cpu().double() - weights @ v.double()).abs().max().item()
# Half precision rounds the output, and may round the weights, by 2^-11 of the largest value.
bound = 2.0**-10 * v.double().abs().max().item()
print(f"largest difference to PyTorch in double precision on the CPU: {difference:.2e} (bound {bound:.2e})")
assert difference <= bound
