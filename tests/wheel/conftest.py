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


def make_environment(run, folder, *wheels, without=()):
    """`without`: packages that are not to be seen there, by the beginnings of their files' names."""
    environment = Environment(run, folder)
    run(sys.executable, "-m", "venv", "--without-pip", environment.folder)
    packages = sysconfig.get_path("purelib")
    if without:
        shown = folder / "packages"
        shown.mkdir()
        for entry in os.scandir(packages):
            if not entry.name.startswith(without):
                (shown / entry.name).symlink_to(entry.path)
        packages = str(shown)
    (environment.site / "torch.pth").write_text(packages + "\n")
    # What is visible from the environment of the tests does not count as installed.
    run(sys.executable, "-m", "pip", "--python", environment.python, "--disable-pip-version-check", "install", "--no-index",
        "--no-deps", "--ignore-installed", *wheels)
    return environment


@pytest.fixture(scope="session")
def environment(run, wheel, tmp_path_factory):
    return make_environment(run, tmp_path_factory.mktemp("wheel") / "an environment", wheel)


@pytest.fixture(scope="session")
def environment_with_op_plugin(run, wheel, tmp_path_factory):
    built = sorted((run.ROOT / "op-plugin/dist").glob("*.whl"))
    assert built, "build the wheel of op-plugin with op-plugin/ci/build.sh"
    return make_environment(run, tmp_path_factory.mktemp("wheels") / "an environment", wheel, *built)


@pytest.fixture(scope="session")
def environment_without_torch_npu(run, wheel, tmp_path_factory):
    folder = tmp_path_factory.mktemp("cpu") / "an environment"
    return make_environment(run, folder, wheel, without=("torch_npu", "fusion_attention"))
