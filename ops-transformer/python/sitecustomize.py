"""Python runs the first sitecustomize on its path when it starts: this one in an environment made by set_env.sh."""
import os
import sys

try:
    import npu_fallback.import_hook

    npu_fallback.import_hook.watch()
finally:
    # Then the one that it hides, if there is any.
    from importlib.machinery import PathFinder

    _here = os.path.dirname(os.path.abspath(__file__))
    _spec = PathFinder.find_spec("sitecustomize", [entry for entry in sys.path if os.path.abspath(entry) != _here])
    if _spec is not None and _spec.loader is not None:
        _spec.loader.exec_module(sys.modules[__name__])
