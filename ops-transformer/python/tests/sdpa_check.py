"""PyTorch's scaled_dot_product_attention, whoever computes it, against the definition: output and gradients."""
import torch
import torch.nn.functional as F
from attention_reference import Attention, assert_within, rounded

SEED = 20240607


def numbers(*shape, dtype=torch.float32, seed=SEED):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed)).to(dtype)


def check_sdpa(query, key, value, attended=None, bias=None, device="cpu", composed=False, **arguments):
    """Operands [batch, heads, rows, features] are put on the device, `arguments` passed as they are. Returns the output.

    attended   bool [batch, heads, rows, keys], what each row sees
    bias       the same shape, added to the scores
    composed   of several operators, which may round scores and weights of 16-bit types one by one
    """
    inputs = [tensor.to(device).requires_grad_() for tensor in (query, key, value)]
    out = F.scaled_dot_product_attention(*inputs, **arguments)
    dy = numbers(*out.shape, dtype=query.dtype, seed=1)
    gradients = torch.autograd.grad(out, inputs, dy.to(device))
    scale = arguments.get("scale")
    for b in range(query.shape[0]):
        leaves = [tensor[b].detach().double().requires_grad_() for tensor in (query, key, value)]
        part = Attention(*leaves, query.shape[-1] ** -0.5 if scale is None else scale, bias_is_scaled=False,
                         hidden=None if attended is None else ~attended[b], bias=None if bias is None else bias[b].double())
        slack = 4 + 2 * part.condition.max() if composed and query.dtype != torch.float32 else 1
        assert_within("output", out[b], part.out.detach(), slack * part.out_bound(query.dtype))
        bounds = part.gradient_bounds(dy[b], query.dtype)
        for name, gradient, expected in zip(("query", "key", "value"), gradients,
                                            torch.autograd.grad(part.out, leaves, dy[b].double())):
            assert_within(name, gradient[b], expected, slack * rounded(bounds[name], expected, query.dtype))
    return out.detach().cpu()
