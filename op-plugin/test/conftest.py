"""Makes the helpers of this folder importable and says what is missing when the plug-in is not installed."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))


@pytest.fixture(scope="session", autouse=True)
def plugin():
    import torch_npu

    assert hasattr(torch_npu, "swa_forward"), "build the wheel with op-plugin/ci/build.sh and install it"


@pytest.fixture(autouse=True)
def one_thread_of_the_judge():
    """OpenMP's threads wait for each other by spinning; where other programs want the processors, as the build does that runs
    beside the tests in CI, the judge's small matrices then take ten times as long."""
    import torch

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)
