"""Installs the kernels whenever torch_npu has been imported, whoever imports it.

PyTorch loads its backends by entry points, but in no fixed order, and not at all when `import torch_npu` comes before
`import torch`. So a finder waits for the module itself. Python starts it: by npu_fallback.pth in site-packages, or by
sitecustomize.py on the path that set_env.sh makes. It runs at every start of Python and must stay cheap: it imports nothing.
"""
import sys

_MODULE = "torch_npu"


class _Finder:
    """Finds the module as the finders behind it do, and sees it through its loading."""

    def find_spec(self, name, path=None, target=None):
        if name != _MODULE:
            return None
        # Only those behind: another finder of this kind may be before it, or behind, and asks in the same way.
        for finder in sys.meta_path[sys.meta_path.index(self) + 1:]:
            find = getattr(finder, "find_spec", None)
            spec = find(name, path, target) if find else None
            if spec is not None:
                if hasattr(spec.loader, "exec_module"):
                    _install_after(spec.loader)
                return spec
        return None


def _install_after(loader):
    replaced = vars(loader).get("exec_module")  # by another finder of this kind

    def exec_module(module):
        import npu_fallback
        from ops_transformer import startup

        # The loader is as it was from now on.
        if replaced is None:
            del loader.exec_module
        else:
            loader.exec_module = replaced
        excepthook = sys.excepthook
        try:
            with startup.libraries() as ours:
                if ours:
                    npu_fallback.prepare()
                loader.exec_module(module)
            if ours:
                npu_fallback.install()
        except BaseException:
            # torch_npu has put its own here, which imports torch when the process exits: after a failure for a second
            # time, in which it crashes.
            sys.excepthook = excepthook
            raise

    loader.exec_module = exec_module


def watch():
    if not any(isinstance(finder, _Finder) for finder in sys.meta_path):
        sys.meta_path.insert(0, _Finder())
