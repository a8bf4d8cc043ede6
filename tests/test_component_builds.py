"""Each component configures, builds and installs alone, with the commands of the operator repositories' instructions.

The builds run in a copy of the sources (fixture `sources`) that is kept, so that a second run compiles what has changed only.
For the last test that copy is moved away: installed programs must not need it.
"""

import importlib.util
import os
import shutil
import sys

import pytest


def build(run, component, home, options):
    """cmake, make as in the instructions. The tilde reaches CMake as it is, because shells do not expand it there."""
    folder = component / "build"
    folder.mkdir(exist_ok=True)
    run("cmake", "..", *options, cwd=folder, env={"HOME": str(home)})
    # Other builds may take the processors meanwhile.
    run("make", f"-j{os.cpu_count()}", cwd=folder, env={"HOME": str(home)}, timeout=3000)
    return folder


@pytest.fixture(scope="session")
def opbase(run, sources, home):
    folder = build(run, sources / "opbase", home, ["-DCMAKE_INSTALL_PREFIX=~/.local/cann-op"])
    run("make", "install", cwd=folder)
    return folder


@pytest.fixture(scope="session")
def ops_transformer(run, sources, home, opbase):
    return build(run, sources / "ops-transformer", home,
                 ["-DASCEND_CANN_PACKAGE_PATH=~/.local/cann-op", "-DOPBASE_INSTALL_PATH=~/.local/cann-op",
                  f"-DFUSION_PYTHON={sys.executable}"])


def test_opbase_installs_with_the_runtime(home, opbase):
    """No toolkit on the machine: the runtime of this source tree goes into the same prefix."""
    prefix = home / ".local/cann-op"
    for name in ("include/opbase/op_base.h", "include/acl/acl.h", "include/aclnn/acl_meta.h", "lib64/libnnopbase.so",
                 "lib64/libascendcl.so", "set_env.sh", "version.info"):
        assert (prefix / name).exists(), name


def test_defaults(opbase):
    """Release, no unit tests, and GoogleTest is not even looked for."""
    cache = (opbase / "CMakeCache.txt").read_text()
    assert "CMAKE_BUILD_TYPE:STRING=Release\n" in cache
    assert "ENABLE_UNIT_TEST:BOOL=OFF\n" in cache
    assert "GTest" not in cache


def test_build_folder_has_every_name(run, ops_transformer):
    """After make, without installation; the library finds opbase and the runtime from there."""
    for name in run.OPERATOR_LIBRARIES:
        library = ops_transformer / "lib" / name
        assert library.exists(), name
        run(sys.executable, "-c", "import ctypes, sys; ctypes.CDLL(sys.argv[1]).aclnnFlashAttentionScore", library)


FIRST_CALL = """
import sys
import torch

sys.path.insert(0, "{lib}")
from ops_transformer import flash_attention

q, k, v = (torch.randn(1, 8, 512, 64, device="{device}", dtype=torch.float16) for _ in range(3))
out = flash_attention(q, k, v, scale=1.0 / 8.0)
print(out.shape, out.dtype, out.device)
"""


def test_python_package_of_the_build_folder(run, home, ops_transformer, tmp_path):
    """As the instructions have it: nothing installed but opbase, whose set_env.sh was sourced; and on the CPU without even that."""
    script = tmp_path / "first.py"
    script.write_text(FIRST_CALL.format(lib=ops_transformer / "lib", device="cpu"))
    done = run(sys.executable, script, env={"TORCH_DEVICE_BACKEND_AUTOLOAD": "0"})
    assert done.stdout == "torch.Size([1, 8, 512, 64]) torch.float16 cpu\n"
    if importlib.util.find_spec("torch_npu"):
        script.write_text(FIRST_CALL.format(lib=ops_transformer / "lib", device="npu"))
        done = run.sourced(home / ".local/cann-op", f'"{sys.executable}" "{script}"')
        assert done.stdout.splitlines()[-1] == "torch.Size([1, 8, 512, 64]) torch.float16 npu:0"


def test_everything_works_without_the_sources(run, sources, home, ops_transformer, tmp_path):
    prefix = home / ".local/cann-op"
    run("cmake", f"-DCMAKE_INSTALL_PREFIX={prefix}", ".", cwd=ops_transformer, env={"HOME": str(home)})
    run("make", "install", cwd=ops_transformer, env={"HOME": str(home)})
    away = sources.with_name("moved-away")
    sources.rename(away)
    try:
        source = run.ROOT / "cann-learning-hub/examples/flash_attention_varlen/main.cpp"
        run.sourced(prefix, f'g++ -std=c++17 "{source}" -I$ASCEND_HOME_PATH/include -L$ASCEND_HOME_PATH/lib64 '
                    "-lopapi -lnnopbase -lascendcl -o program; ./program", cwd=tmp_path)
    finally:
        away.rename(sources)


# ---- What is said when something is missing --------------------------------------------------------------------------


def refused(run, component, tmp_path, *options):
    """The message with which configuring stops, as one line."""
    done = run("cmake", "-S", component, "-B", tmp_path / "build", *options, code=1)
    return " ".join(done.stderr.split())


@pytest.mark.parametrize("component", ["opbase", "ops-transformer"])
def test_toolkit_path_without_headers(run, home, opbase, tmp_path, component):
    message = refused(run, run.ROOT / component, tmp_path, f"-DASCEND_CANN_PACKAGE_PATH={tmp_path}/nothing",
                      f"-DOPBASE_INSTALL_PATH={home}/.local/cann-op")
    assert f"Could not find ASCEND_CANN_PACKAGE_PATH: {tmp_path}/nothing/include/acl/acl.h does not exist" in message
    assert "-DASCEND_CANN_PACKAGE_PATH=<dir>" in message and "/usr/local/Ascend" in message


def test_toolkit_of_another_vendor(run, tmp_path):
    header = tmp_path / "toolkit/include/acl/acl.h"
    header.parent.mkdir(parents=True)
    header.touch()
    message = refused(run, run.ROOT / "opbase", tmp_path, f"-DASCEND_CANN_PACKAGE_PATH={tmp_path}/toolkit")
    assert "opbase builds on this project's ascendcl" in message and f"{tmp_path}/toolkit" in message


def test_opbase_path_not_set(run, tmp_path):
    message = refused(run, run.ROOT / "ops-transformer", tmp_path)
    assert ("OPBASE_INSTALL_PATH is not set or <dir>/include/opbase/op_base.h does not exist;"
            " build and install opbase first") in message


def test_opbase_path_wrong(run, tmp_path):
    message = refused(run, run.ROOT / "ops-transformer", tmp_path, f"-DOPBASE_INSTALL_PATH={tmp_path}")
    assert (f"OPBASE_INSTALL_PATH is not set or {tmp_path}/include/opbase/op_base.h does not exist;"
            " build and install opbase first") in message


@pytest.mark.parametrize("library", ["libnnopbase.so", "libascendcl.so"])
def test_opbase_library_missing(run, home, opbase, tmp_path, library):
    """Headers without their library are found out when configuring, not as undefined references."""
    broken = shutil.copytree(home / ".local/cann-op", tmp_path / "broken", symlinks=True)
    (broken / "lib64" / library).unlink()
    message = refused(run, run.ROOT / "ops-transformer", tmp_path, f"-DOPBASE_INSTALL_PATH={broken}")
    assert "OPBASE_INSTALL_PATH" in message and f"{broken}/lib64/{library}" in message
