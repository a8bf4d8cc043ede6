"""Operators on npu tensors that are not attention: PyTorch's own CPU kernels, on the same memory.

Loads by itself after torch_npu (see import_hook). ASCEND_CPU_FALLBACK=off keeps it out; then npu tensors can be made, copied and
given to attention only.
"""
import os
from pathlib import Path

SWITCH = "ASCEND_CPU_FALLBACK"

__all__ = ["SWITCH", "install", "is_wanted"]


def is_wanted():
    value = os.environ.get(SWITCH, "on").lower()
    if value not in ("on", "off"):
        raise ImportError(f"{SWITCH} is {value!r}: it can be on or off")
    return value == "on"


def install():
    """Registers the kernels, once, if they are wanted. torch_npu must have been imported."""
    if not is_wanted():
        return
    import torch

    library = Path(__file__).with_name("libnpu_fallback.so")
    try:
        torch.ops.load_library(library)
        torch.ops.npu_fallback.install()
    except (OSError, RuntimeError) as error:
        reason = str(error).splitlines()[0]
        raise ImportError(f"The CPU kernels for npu tensors cannot be used: {reason}. They are built for one version of "
                          f"torch and torch-npu; {SWITCH}=off goes on without them.") from error
