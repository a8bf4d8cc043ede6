"""Packs an installed tree as a wheel: the libraries, their programs, ops_transformer and npu_fallback.

usage: python packaging/build_wheel.py [--prefix install] [--dist dist]

It needs the package `wheel` (ci/constraints.txt has the version). The wheel has no headers and no second names of libraries:
programs in C++ are built against the tree. Its tag says what it is tied to: the platform that this runs on, no version of Python.
"""
import argparse
import re
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
NAME = "fusion_attention"
PACKAGES = ("ops_transformer", "npu_fallback")
TOOLS = ("rich", "matplotlib")  # any version that pip finds will do
HOME_FILES = ("set_env.sh", "version.info", "LICENSE")  # beside libraries and folders, where ASCEND_HOME_PATH will lead to

METADATA = """\
Metadata-Version: 2.4
Name: {name}
Version: {version}
Summary: Ascend's attention stack for ordinary CPUs: torch-npu runs on it unmodified
License-Expression: Apache-2.0
License-File: LICENSE
Requires-Python: >=3.11
Provides-Extra: npu
Provides-Extra: tools
{requirements}
"""
WHEEL = """\
Wheel-Version: 1.0
Generator: {name} {version}
Root-Is-Purelib: false
Tag: {tag}
"""


def version_of(prefix):
    return re.search(r"^FusionAttention=(\S+)$", (prefix / "version.info").read_text(), re.MULTILINE)[1]


def requirements():
    """As extras only: otherwise pip would bring the CUDA build of torch to whoever has none."""
    from ops_transformer.doctor.checks import VERSIONS

    return "\n".join([*(f'Requires-Dist: {package}=={version} ; extra == "npu"' for package, version in VERSIONS.items()),
                      *(f'Requires-Dist: {package} ; extra == "tools"' for package in TOOLS)])


def copy_packages(prefix, stage):
    for package in PACKAGES:
        shutil.copytree(prefix / "python" / package, stage / package, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "ops-transformer/python/npu_fallback.pth", stage)


def copy_home(prefix, home):
    from ops_transformer.home import FOLDERS

    (home / "lib64").mkdir(parents=True)
    for library in (prefix / "lib64").glob("*.so"):
        if not library.is_symlink():
            shutil.copy(library, home / "lib64")
    shutil.copytree(prefix / "bin", home / "bin")
    for name in HOME_FILES:
        shutil.copy(prefix / name, home)
    for name in FOLDERS:
        (home / name).mkdir()
        (home / name / ".keep").touch()  # a wheel holds no empty folder


def write_metadata(prefix, stage):
    version = version_of(prefix)
    info = stage / f"{NAME}-{version}.dist-info"
    (info / "licenses").mkdir(parents=True)
    shutil.copy(prefix / "LICENSE", info / "licenses")
    tag = f"py3-none-{re.sub('[-.]', '_', sysconfig.get_platform())}"
    (info / "METADATA").write_text(METADATA.format(name=NAME, version=version, requirements=requirements()))
    (info / "WHEEL").write_text(WHEEL.format(name=NAME, version=version, tag=tag))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--prefix", type=Path, default=ROOT / "install", help="the installed tree")
    parser.add_argument("--dist", type=Path, default=ROOT / "dist", help="the folder that the wheel is written to")
    arguments = parser.parse_args()
    kernels = arguments.prefix / "python/npu_fallback/libnpu_fallback.so"
    if not kernels.exists():
        sys.exit(f"error: {kernels} does not exist: build and install with a Python that has torch (ci/demo.sh does)")
    program = arguments.prefix / "bin/attention_verify"
    if not program.exists():
        sys.exit(f"error: {program} does not exist: build and install the whole tree, with FUSION_TOOLS=ON")
    sys.path.insert(0, str(arguments.prefix / "python"))  # for what the package in the tree says itself
    with tempfile.TemporaryDirectory() as folder:
        stage = Path(folder)
        copy_packages(arguments.prefix, stage)
        copy_home(arguments.prefix, stage / "ops_transformer/home")
        write_metadata(arguments.prefix, stage)
        arguments.dist.mkdir(parents=True, exist_ok=True)
        subprocess.run([sys.executable, "-m", "wheel", "pack", "--dest-dir", arguments.dist, stage], check=True)


if __name__ == "__main__":
    main()
