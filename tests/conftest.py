"""What the tests of the installed tree share. They see the libraries as a user does: through an installed prefix.

FUSION_PREFIX  the installed tree (default: install/ in the repository, where ci/test.sh puts the release build)
FUSION_WORK    a folder for builds that are kept between runs (default: build/)
"""

import filecmp
import os
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
WORK = Path(os.environ.get("FUSION_WORK", ROOT / "build"))

# Names under which programs look for the operators; all are one library.
OPERATOR_LIBRARIES = ["libopapi.so", "libascend_ops_transformer.so", "libopapi_transformer.so", "libopapi_math.so"]


class Commands:
    """Runs programs in a clean environment: nothing of this project, so that only what a test sets up is found."""

    ROOT = ROOT
    WORK = WORK
    OPERATOR_LIBRARIES = OPERATOR_LIBRARIES

    def __call__(self, *command, cwd=None, env=None, code=0, timeout=900):
        clean = {name: os.environ[name] for name in ("PATH", "HOME", "LANG", "TERM") if name in os.environ}
        done = subprocess.run([str(word) for word in command], cwd=cwd, env=clean | (env or {}), text=True,
                              stdin=subprocess.DEVNULL, capture_output=True, timeout=timeout)
        output = done.stdout + done.stderr
        assert code is None or done.returncode == code, f"{command} gave {done.returncode}:\n{output[-4000:]}"
        return done

    def sourced(self, prefix, script, *, shell="bash", **options):
        """The commands of `script` in a shell that has sourced the prefix's set_env.sh."""
        return self(shell, "-c", f'set -e; source "$0"; {script}', prefix / "set_env.sh", **options)


@pytest.fixture(scope="session")
def run():
    return Commands()


@pytest.fixture(scope="session")
def prefix():
    path = Path(os.environ.get("FUSION_PREFIX", ROOT / "install"))
    if not (path / "set_env.sh").exists():
        pytest.exit(f"{path} holds no installed tree: run ci/test.sh, or set FUSION_PREFIX", returncode=3)
    return path


@pytest.fixture(scope="session")
def moved_prefix(prefix, tmp_path_factory):
    """The installed tree at another place, with a blank in its path; nothing in it may know where it was before."""
    target = tmp_path_factory.mktemp("moved") / "fusion attention"
    shutil.copytree(prefix, target, symlinks=True)
    return target


# ---- Builds of single components -------------------------------------------------------------------------------------

# What they build from, and the examples.
SOURCES = ["ascendcl", "cann-learning-hub", "cmake", "opbase", "ops-transformer", "packaging", "CMakeLists.txt",
           "LICENSE"]


def synchronise(source, target):
    """Makes `target` equal to `source`; unchanged files keep their time stamps. Build folders in it are left alone."""
    if source.is_file():
        if not target.exists() or not filecmp.cmp(source, target, shallow=False):
            shutil.copy(source, target)
        return
    target.mkdir(parents=True, exist_ok=True)
    names = {path.name for path in source.iterdir() if not path.name.startswith(("build", "__pycache__"))}
    for stale in target.iterdir():
        if stale.name not in names and stale.name != "build":
            shutil.rmtree(stale) if stale.is_dir() else stale.unlink()
    for name in names:
        synchronise(source / name, target / name)


@pytest.fixture(scope="session")
def sources(run):
    tree = run.WORK / "components/source"
    for name in SOURCES:
        tree.parent.mkdir(parents=True, exist_ok=True)
        tree.mkdir(exist_ok=True)
        synchronise(run.ROOT / name, tree / name)
    return tree


@pytest.fixture(scope="session")
def home(run):
    """Stands for the user's home folder: the instructions install into ~/.local/cann-op."""
    folder = run.WORK / "components/home"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    return folder
