"""Makes the helpers of this folder importable and says what is missing when the plug-in is not installed."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))


@pytest.fixture(scope="session", autouse=True)
def plugin():
    import torch_npu

    assert hasattr(torch_npu, "swa_forward"), "build the wheel with op-plugin/ci/build.sh and install it"
