"""Makes the helpers of this folder importable and says what is missing when the plug-in is not installed."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))


def pytest_sessionstart(session):
    import torch_npu

    if not hasattr(torch_npu, "swa_forward"):
        pytest.exit("torch_npu.swa_forward does not exist: build the wheel with op-plugin/ci/build.sh and install it", returncode=3)
