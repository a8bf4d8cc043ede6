"""Loads the operators: torch.ops.ops_transformer.attention_forward and attention_backward."""
import os
import sys

import torch

LIBRARY = os.path.join(os.path.dirname(os.path.abspath(__file__)), "libops_transformer_torch.so")


def load():
    """The libraries are those that the process has already, by the names that they have inside; else those on LD_LIBRARY_PATH,
    and else those beside this package."""
    if not os.path.exists(LIBRARY):
        raise ImportError(f"{LIBRARY} is missing: the package was built with a Python that has no torch. Build it again with "
                          "-DFUSION_PYTHON=<a Python that has torch>")
    try:
        torch.ops.load_library(LIBRARY)
    except OSError as error:
        raise ImportError(f"The operators of ops_transformer cannot be used: {str(error).splitlines()[0]}. They are built for one "
                          f"version of torch (this is {torch.__version__}); `python -m ops_transformer doctor` checks the set-up") from error
    import ops_transformer.fake  # noqa: F401 (registers shapes)

    _install_npu_fallback()
    _count_flops()


def _install_npu_fallback():
    """The other operators on npu tensors, where torch_npu was imported before this package could be found (as in build/lib)."""
    if "torch_npu" not in sys.modules:
        return
    import npu_fallback
    from ops_transformer.home import is_ours

    if is_ours(os.environ.get("ASCEND_HOME_PATH", "")):
        npu_fallback.prepare()
        npu_fallback.install()


def _count_flops():
    """For torch.utils.flop_counter: the products as if every key were visible, which is how it counts torch's own attention."""
    from torch.utils.flop_counter import register_flop_formula

    operators = torch.ops.ops_transformer

    def product(query, key, width, layout):
        heads, rows = {"BNSD": (1, 2), "BSND": (2, 1), "TND": (1, 0)}[layout]
        batch = 1 if layout == "TND" else query[0]
        return 2 * batch * query[heads] * query[rows] * key[rows] * width

    @register_flop_formula(operators.attention_forward)
    def forward_flops(query, key, value, *rest, **_):
        layout = next(word for word in rest if isinstance(word, str))
        return product(query, key, query[-1], layout) + product(query, key, value[-1], layout)

    @register_flop_formula(operators.attention_backward)
    def backward_flops(grad, query, key, value, *rest, **_):
        layout = next(word for word in rest if isinstance(word, str))
        return 3 * product(query, key, query[-1], layout) + 2 * product(query, key, value[-1], layout)
