"""Loads the operators right after torch_npu has been imported, so that torch_npu.swa_forward is there as in a torch-npu that was
built with them, whether a program imports torch or torch_npu first.

A .pth file imports this module whenever Python starts; therefore it imports nothing that is not loaded by then anyway.
"""

import sys
from importlib.machinery import PathFinder


class _TorchNpuFinder:
    """Finds torch_npu as it would be found without this, and adds a step to its loading."""

    @staticmethod
    def find_spec(name, path=None, target=None):
        spec = PathFinder.find_spec(name, path, target) if name == "torch_npu" else None
        if spec is not None and spec.loader is not None:
            load = spec.loader.exec_module

            def load_with_operators(module):
                load(module)
                _load_operators()

            spec.loader.exec_module = load_with_operators
        return spec


def _load_operators():
    try:
        import fusion_attention_op_plugin  # noqa: F401: importing registers
    except (ImportError, OSError) as error:  # torch_npu is of use without them
        import warnings

        warnings.warn(f"torch_npu.swa_forward and torch_npu.swa_backward are not available: {error}")


sys.meta_path.insert(0, _TorchNpuFinder)
