"""Generates what registers the operators of op_plugin_functions.yaml, with the generator in the torch-npu wheel.

    python generate.py <op_plugin_functions.yaml> <output folder>

Three files of the output are compiled or shipped: op_plugin/OpInterfaceEverything.cpp, which leads to namespace op_api,
torch_npu/csrc/aten/CustomRegisterSchema.cpp, which defines schemas and kernels, and torch_npu/utils/custom_ops.py, which
makes the operators attributes of torch_npu. The rest of the output belongs to the plug-in inside torch-npu.
"""

import os
import shutil
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path


def generate(functions, output):
    deprecated = functions.with_name("deprecated.yaml")
    torch_version = version("torch").split("+")[0]

    shutil.rmtree(output, ignore_errors=True)
    config = output / "op_plugin/config"
    aten = output / "torch_npu/csrc/aten"
    for folder in (config, aten, output / "torch_npu/utils"):
        folder.mkdir(parents=True)
    derivatives = config / "derivatives.yaml"
    derivatives.write_text("[]\n")  # neither operator has one
    # A copy, because the generator writes beside it.
    stubs = shutil.copy(functions.with_name("npu_native_functions.yaml"), config)
    # The generator's own form: the operators of this version of torch, without the keys that choose versions.
    selected = config / "op_plugin_functions.yaml"

    environment = os.environ | {
        "PYTORCH_VERSION": torch_version,
        "PYTORCH_CUSTOM_DERIVATIVES_PATH": str(derivatives),
        "ACLNN_EXTENSION_PATH": str(output),
        "ACLNN_EXTENSION_SWITCH": "TRUE",
        "TORCH_DEVICE_BACKEND_AUTOLOAD": "0",  # the generator reads schemas: it needs no device and no Ascend library
    }

    def run(module, **options):
        arguments = [f"--{name}={value}" for name, value in options.items()]
        subprocess.run([sys.executable, "-m", f"torchnpugen.{module}", *arguments], cwd=output, env=environment, check=True)

    run("gen_op_plugin_functions", version=torch_version, output_dir=f"{config}/", source_yaml=functions)
    run("gen_op_backend", version=torch_version, output_dir=f"{output}/op_plugin/", source_yaml=selected,
        deprecate_yaml=deprecated)
    run("gen_backend_stubs", output_dir=aten, source_yaml=stubs, impl_path=aten,
        op_plugin_impl_path=f"{output}/op_plugin", op_plugin_yaml_path=selected)


if __name__ == "__main__":
    generate(Path(sys.argv[1]).resolve(), Path(sys.argv[2]).resolve())
