"""The wheel, installed into a fresh environment outside the source tree. Only torch, torch-npu and what they need are visible
there beside it, taken from the environment of the tests."""

import os
import sys
import sysconfig

import pytest


@pytest.fixture(scope="session")
def wheel(run, prefix, tmp_path_factory):
    dist = tmp_path_factory.mktemp("dist")
    run(sys.executable, run.ROOT / "packaging/build_wheel.py", "--prefix", prefix, "--dist", dist)
    (path,) = dist.glob("*.whl")
    return path


class Environment:
    """A virtual environment with the wheel. Called with arguments for Python, it runs them there."""

    def __init__(self, run, folder):
        self._run = run
        self.folder = folder
        self.python = folder / "bin/python"
        self.site = folder / "lib" / f"python{sys.version_info[0]}.{sys.version_info[1]}" / "site-packages"

    def __call__(self, *arguments, code=0, **variables):
        return self._run(self.python, *arguments, cwd=self.folder, code=code, env=variables)

    def source(self, script, **variables):
        """Commands of bash, which find this environment's Python first."""
        path = f"{self.folder / 'bin'}:{os.environ['PATH']}"
        return self._run("bash", "-c", f"set -eu; {script}", cwd=self.folder, env={"PATH": path, **variables})


@pytest.fixture(scope="session")
def environment(run, wheel, tmp_path_factory):
    environment = Environment(run, tmp_path_factory.mktemp("wheel") / "an environment")
    run(sys.executable, "-m", "venv", "--without-pip", environment.folder)
    (environment.site / "torch.pth").write_text(sysconfig.get_path("purelib") + "\n")
    run(sys.executable, "-m", "pip", "--python", environment.python, "--disable-pip-version-check", "install", "--no-index",
        "--no-deps", wheel)
    return environment
