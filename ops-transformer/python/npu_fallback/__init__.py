"""Operators on npu tensors that are not attention: PyTorch's own CPU kernels, on the same memory.

Loads by itself around torch_npu (see import_hook). ASCEND_CPU_FALLBACK=off keeps it out; then npu tensors can be made, copied and
given to attention only.
"""
import contextlib
import os

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
    if not is_wanted():
        return
    with _errors_as_a_sentence():
        torch = _import_torch()
        torch.ops.load_library(LIBRARY)
        torch.ops.npu_fallback.check_runtime()


def install():
    """Registers the kernels, once, if they are wanted. torch_npu must have been imported."""
    if not is_wanted():
        return
    with _errors_as_a_sentence():
        _import_torch().ops.npu_fallback.install()


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


@contextlib.contextmanager
def _errors_as_a_sentence():
    try:
        yield
    except (OSError, RuntimeError) as error:
        reason = str(error).splitlines()[0]
        raise ImportError(f"The CPU kernels for npu tensors cannot be used: {reason}. They are built for one version of "
                          f"torch and torch-npu; {SWITCH}=off goes on without them.") from error
