"""Fusion Attention for Python: fused attention on CPU and npu tensors, and a command line around it.

    from ops_transformer import flash_attention, flash_attention_varlen

    out = flash_attention(q, k, v, causal=True)     # [batch, heads, tokens, head dim], float32, float16 or bfloat16

`python -m ops_transformer --help` lists the commands. Importing the package costs nothing: torch and the operators are loaded
when one of the names above is asked for.
"""
_PUBLIC = {"flash_attention": "attention", "flash_attention_varlen": "attention", "replace_sdpa": "sdpa"}

__all__ = list(_PUBLIC)


def __getattr__(name):
    if name not in _PUBLIC:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    value = getattr(import_module(f"{__name__}.{_PUBLIC[name]}"), name)
    globals()[name] = value  # asked for once
    return value


def __dir__():
    return sorted([*globals(), *_PUBLIC])
