"""Operators on npu tensors that are not attention: PyTorch's own CPU kernels, on the same memory.

Loads by itself around torch_npu (see import_hook). ASCEND_CPU_FALLBACK=off keeps it out; then npu tensors can be made, copied and
given to attention only.
"""
import os  # and no more than that: the import hook brings this module into every start of Python

SWITCH = "ASCEND_CPU_FALLBACK"
LIBRARY = os.path.join(os.path.dirname(__file__), "libnpu_fallback.so")

__all__ = ["LIBRARY", "SWITCH", "install", "is_wanted", "prepare"]


def is_wanted():
    value = os.environ.get(SWITCH, "on").lower()
    if value not in ("on", "off"):
        raise ImportError(f"{SWITCH} is {value!r}: it can be on or off")
    return value == "on"


def prepare():
    """Loads the library. Before torch_npu: a process that fails with torch_npu half imported crashes when it exits."""
    if is_wanted():
        _run(lambda ops: (ops.load_library(LIBRARY), ops.npu_fallback.check_runtime()))


def install():
    """Registers the kernels, once, if they are wanted. torch_npu must have been imported."""
    if is_wanted():
        _run(lambda ops: ops.npu_fallback.install())


def _run(step):
    """With torch.ops. What goes wrong becomes a sentence."""
    try:
        step(_import_torch().ops)
    except (OSError, RuntimeError) as error:
        reason = str(error).splitlines()[0]
        raise ImportError(f"The CPU kernels for npu tensors cannot be used: {reason}. They are built for one version of "
                          f"torch and torch-npu; {SWITCH}=off goes on without them.") from error


def _import_torch():
    """torch, without its loading torch_npu, whose import is under way."""
    name = "TORCH_DEVICE_BACKEND_AUTOLOAD"
    before = os.environ.get(name)
    os.environ[name] = "0"
    try:
        import torch
    finally:
        if before is None:
            del os.environ[name]
        else:
            os.environ[name] = before
    return torch
