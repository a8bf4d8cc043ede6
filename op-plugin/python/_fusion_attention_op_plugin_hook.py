"""Loads the operators right after torch_npu has been imported, so that torch_npu.swa_forward is there as in a torch-npu that was
built with them, whether a program imports torch or torch_npu first.

A .pth file imports this module whenever Python starts; therefore it imports nothing that is not loaded by then anyway.
"""

import sys
from _thread import get_ident

# What torch_npu links; no wheel brings it.
_LIBRARIES = ("libascendcl.so", "libhccl.so", "libacl_op_compiler.so", "libge_runner.so", "libgraph.so",
              "libacl_tdt_channel.so")


class _TorchNpuFinder:
    """Finds torch_npu as the finders behind it do, and adds a step to its loading.

    One of those may ask all finders in its turn. To the thread that is asking already this one then has nothing to say:
    otherwise the two would ask each other for ever.
    """

    def __init__(self):
        self._asking = set()  # threads

    def find_spec(self, name, path=None, target=None):
        thread = get_ident()
        if name != "torch_npu" or thread in self._asking:
            return None
        self._asking.add(thread)
        try:
            spec = self._ask_behind(name, path, target)
        finally:
            self._asking.remove(thread)
        if spec is not None and hasattr(spec.loader, "exec_module"):
            _load_operators_after(spec.loader)
        return spec

    def _ask_behind(self, name, path, target):
        for finder in sys.meta_path[sys.meta_path.index(self) + 1:]:
            find_spec = getattr(finder, "find_spec", None)
            spec = find_spec(name, path, target) if find_spec else None
            if spec is not None:
                return spec
        return None


def _load_operators_after(loader):
    replaced = vars(loader).get("exec_module")  # by another finder of this kind

    def load_with_operators(module):
        # The loader is as it was from now on.
        if replaced is None:
            vars(loader).pop("exec_module", None)
        else:
            loader.exec_module = replaced
        try:
            loader.exec_module(module)
        except (ImportError, OSError) as error:
            library = str(error).partition(": cannot open shared object file")[0]
            if library not in _LIBRARIES:
                raise
            raise ImportError(f"torch_npu needs {library}, which was not found: install the wheel of fusion_attention beside "
                              "fusion_attention_op_plugin, or source set_env.sh of an installed tree first") from None
        _load_operators()

    loader.exec_module = load_with_operators


def _load_operators():
    try:
        import fusion_attention_op_plugin  # noqa: F401: importing registers
    except (ImportError, OSError) as error:  # torch_npu is of use without them
        import warnings

        warnings.warn(f"torch_npu.swa_forward and torch_npu.swa_backward are not available: {error}")


sys.meta_path.insert(0, _TorchNpuFinder())
