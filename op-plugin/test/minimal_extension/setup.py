"""Builds the extension with what the torch-npu wheel offers for that."""

from pathlib import Path

import torch
import torch_npu
from setuptools import setup
from torch.utils.cpp_extension import BuildExtension
from torch_npu.utils.cpp_extension import NpuExtension

third_party = Path(torch_npu.__file__).parent / "include/third_party"
major, minor = torch.__version__.split(".")[:2]

setup(
    name="minimal_extension",
    ext_modules=[NpuExtension(
        "minimal_extension",
        ["attention.cpp"],
        include_dirs=[str(third_party / "acl/inc"), str(third_party / "op-plugin")],
        # BUILD_LIBTORCH leaves Python's own header out of the wheel's, which not every machine has.
        define_macros=[("CURRENT_VERSION", f"V{major}R{minor}"), ("BUILD_LIBTORCH", None)],
        extra_compile_args=["-std=c++20", "-O0", "-g0"],
    )],
    cmdclass={"build_ext": BuildExtension.with_options(use_ninja=False)},
)
