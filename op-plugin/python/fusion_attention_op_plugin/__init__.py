"""swa_forward and swa_backward for torch-npu: attention forward and backward as two operators, with a sliding window.

Importing this package registers them as torch.ops.npu.<name> and torch_npu.<name>. Where it is installed, importing torch_npu
does so by itself.
"""

import sysconfig
from importlib.metadata import version
from pathlib import Path

import torch
import torch_npu

_built_for = version(__name__)
if torch_npu.__version__.split("+")[0] != _built_for:
    raise ImportError(f"{__name__} was built for torch-npu {_built_for}, but torch-npu {torch_npu.__version__} is installed: "
                      "build and install the wheel of op-plugin again")

torch.ops.load_library(Path(__file__).with_name("_C" + sysconfig.get_config_var("EXT_SUFFIX")))

from . import custom_ops, fake_kernels  # noqa: E402,F401: both need the operators
