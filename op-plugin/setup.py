"""Builds the extension of the wheel. Metadata: pyproject.toml; the command to use: ci/build.sh.

Only headers and libraries of torch and torch-npu are needed, neither is imported as a device: building takes no Ascend library.
"""

import os
import shutil
import subprocess
import sys
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext

ROOT = Path(__file__).resolve().parent
GENERATED = ROOT / "build/generated"
STAMP = GENERATED / "stamp"  # what was generated, and from what
PACKAGE = "fusion_attention_op_plugin"


def folder_of(package):
    return Path(find_spec(package).submodule_search_locations[0])


TORCH = folder_of("torch")
TORCH_NPU = folder_of("torch_npu")
NPU_INCLUDE = TORCH_NPU / "include"
# In this order: what stands in for a header of the wheel, the wheel, and then what it lacks. The generator also writes headers
# of the wheel's names, with our operators only.
INCLUDE = [
    ROOT / "compat",
    NPU_INCLUDE,
    NPU_INCLUDE / "third_party/acl/inc",
    NPU_INCLUDE / "third_party/hccl/inc",
    NPU_INCLUDE / "third_party/op-plugin",
    TORCH / "include",
    TORCH / "include/torch/csrc/api/include",
    GENERATED,
]


def version_macro():
    major, minor = version("torch").split(".")[:2]
    return ("CURRENT_VERSION", f"V{major}R{minor}")


class BuildOperators(build_ext):
    def run(self):
        self.generate()
        super().run()
        library = Path(self.build_lib)
        shutil.copyfile(GENERATED / "torch_npu/utils/custom_ops.py", library / PACKAGE / "custom_ops.py")
        shutil.copyfile(ROOT / f"python/{PACKAGE}.pth", library / f"{PACKAGE}.pth")

    def generate(self):
        """Again only when the declarations, the script or torch-npu have changed, because everything is compiled anew then."""
        script = ROOT / "codegen/generate.py"
        inputs = [script, *sorted((ROOT / "op_plugin/config").glob("*.yaml"))]
        state = "\n".join([version("torch-npu"), *(path.read_text() for path in inputs)])
        if STAMP.exists() and STAMP.read_text() == state:
            return
        functions = ROOT / "op_plugin/config/op_plugin_functions.yaml"
        subprocess.run([sys.executable, script, functions, GENERATED], check=True)
        STAMP.write_text(state)


extension = Extension(
    f"{PACKAGE}._C",
    ["extension.cpp"],
    depends=[str(STAMP), *(str(path) for folder in ("op_plugin", "compat") for path in sorted((ROOT / folder).rglob("*.*")))],
    language="c++",
    # BUILD_LIBTORCH leaves Python's own header out of the wheel's, which not every machine has.
    define_macros=[version_macro(), ("BUILD_LIBTORCH", None)],
    # As system folders: the warnings of foreign headers are not ours to mend.
    extra_compile_args=["-std=c++20", "-O2", "-g0", "-fvisibility=hidden", *(f"-isystem{path}" for path in INCLUDE)],
    library_dirs=[str(TORCH / "lib"), str(TORCH_NPU / "lib")],
    libraries=["torch_npu", "torch", "torch_cpu", "c10"],
    extra_link_args=["-Wl,--no-as-needed", "-Wl,-s"],
)

os.chdir(ROOT)
setup(ext_modules=[extension], cmdclass={"build_ext": BuildOperators})
