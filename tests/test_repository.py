"""The repository itself: nothing in it belongs to one machine."""

import re
import shutil

import pytest


@pytest.fixture(scope="module")
def files(run):
    """Every text file that is or could be committed."""
    if shutil.which("git") is None or not (run.ROOT / ".git").exists():
        pytest.skip("not a git checkout")
    listed = run("git", "-c", "safe.directory=*", "ls-files", "-z", "--cached", "--others", "--exclude-standard", cwd=run.ROOT)
    paths = [run.ROOT / name for name in listed.stdout.split("\0") if name]
    return [path for path in paths if path.is_file() and b"\0" not in path.read_bytes()]


def test_no_path_of_a_machine(run, files):
    folders = "|".join(("root", "home", "work", "opt", "Users"))  # in pieces, so that this file passes as well
    machine_path = re.compile(rf"(?<![\w./>}}$~-])/(?:{folders})/\w|{re.escape(str(run.ROOT))}\b")
    found = [f"{path.relative_to(run.ROOT)}:{number}: {line.strip()}" for path in files
             for number, line in enumerate(path.read_text(errors="replace").splitlines(), 1) if machine_path.search(line)]
    assert len(files) > 50 and found == []


def test_scripts_parse(run, files):
    scripts = [path for path in files if path.suffix == ".sh" or path.parent.name == ".ci"]
    assert len(scripts) >= 4
    for script in scripts:
        run("bash", "-n", script)


def test_presets(run):
    done = run("cmake", "--list-presets", cwd=run.ROOT)
    for preset in ("release", "debug", "asan", "tsan"):
        assert f'"{preset}"' in done.stdout
