"""An extension of a user's own, built against the torch-npu wheel without its generator: NpuExtension, EXEC_NPU_CMD_EXT and
TORCH_LIBRARY_FRAGMENT. The other way, with the generator, is how the plug-in's wheel itself is built."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).resolve().parent
# Kept between runs: only a changed source is compiled again.
BUILD = Path(os.environ.get("FUSION_WORK", FOLDER.parent / "build")) / "minimal_extension"

PROGRAM = """
import sys
import torch, torch_npu
torch.ops.load_library(sys.argv[1])
generator = torch.Generator().manual_seed(4)
q, k, v = (torch.randn(2, 4, length, 32, generator=generator).npu() for length in (65, 130, 130))
for _ in range(20):  # the queue holds several calls at a time
    mine = torch.ops.npu.minimal_attention(q, k, v, 0.25)
    theirs = torch_npu.npu_fusion_attention(q, k, v, 4, "BNSD", scale=0.25)
    for one, other in zip(mine, theirs):
        assert torch.equal(one.cpu(), other.cpu())
assert mine[0].cpu().abs().max() > 0.1
"""


def run(*command, **environment):
    done = subprocess.run([sys.executable, *map(str, command)], cwd=BUILD, env=os.environ | environment, text=True,
                          capture_output=True, timeout=600)
    assert done.returncode == 0, (done.stdout + done.stderr)[-4000:]


@pytest.fixture(scope="module")
def library():
    BUILD.mkdir(parents=True, exist_ok=True)
    for source in (FOLDER / "minimal_extension").iterdir():
        if source.is_file():
            shutil.copy2(source, BUILD)
    run("setup.py", "build_ext", "--inplace")
    (built,) = BUILD.glob("minimal_extension*.so")
    return built


@pytest.mark.parametrize("mode", ["0", "1", "2"])
def test_equal_to_npu_fusion_attention(library, mode):
    run("-c", PROGRAM, library, TASK_QUEUE_ENABLE=mode)
