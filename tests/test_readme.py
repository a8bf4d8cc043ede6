"""The examples of the README do what it says."""

import re
import sys

import pytest


@pytest.fixture(scope="module")
def readme(run):
    return (run.ROOT / "README.md").read_text(encoding="utf-8")


def block(readme, language, containing=""):
    found = [text for text in re.findall(rf"```{language}\n(.*?)```", readme, re.DOTALL) if containing in text]
    assert len(found) == 1
    return found[0]


def test_cpp_example(run, readme, moved_prefix, tmp_path):
    source = block(readme, "cpp")
    (tmp_path / "first.cpp").write_text(source)
    (tmp_path / "install").symlink_to(moved_prefix)
    commands = block(readme, "sh", "first.cpp").replace("$ASCEND_HOME_PATH", '"$ASCEND_HOME_PATH"')
    done = run("bash", "-c", f"set -e\n{commands}", cwd=tmp_path)
    assert done.stdout.strip() == re.search(r"// (attention 3.*)", source).group(1)


@pytest.mark.parametrize("containing", ["flash_attention_varlen", "torch_npu"])
def test_python_examples(run, readme, moved_prefix, tmp_path, containing):
    source = block(readme, "python", containing)
    (tmp_path / "first.py").write_text(source)
    done = run.sourced(moved_prefix, f'"{sys.executable}" first.py', cwd=tmp_path)
    assert done.stdout.splitlines()[-1] == re.search(r"# (torch\.Size.*)", source).group(1)


def test_python_demonstration(run, moved_prefix):
    """What ci/demo.sh runs: the call of the tutorial, compared with PyTorch in double precision."""
    done = run.sourced(moved_prefix, f'"{sys.executable}" "{run.ROOT}/ci/demo_npu.py"')
    assert "torch.Size([1, 8, 512, 64]) torch.float16 npu:0" in done.stdout


def test_links_lead_somewhere(run, readme):
    for path in [run.ROOT / "README.md", *(run.ROOT / "docs").glob("*.md")]:
        for link in re.findall(r"\]\(([^)#:\s]+)\)", path.read_text(encoding="utf-8")):
            assert (path.parent / link).exists(), f"{path.name}: {link}"


def test_environment_variables_are_all_listed(run, readme):
    """Every ASCEND_ variable that the libraries read has its line in the table, and no other has."""
    sources = [path for component in ("ascendcl", "opbase", "ops-transformer")
               for path in (run.ROOT / component).rglob("*.cpp") if "test" not in str(path.relative_to(run.ROOT))]
    read = {name for path in sources for name in re.findall(r'getenv\("(\w+)"\)', path.read_text())}
    read |= {name for path in (run.ROOT / "ops-transformer/python").glob("*/*.py") if path.parent.name != "tests"
             for name in re.findall(r'"(ASCEND_CPU_\w+)"', path.read_text())}
    listed = set(re.findall(r"^\| `(ASCEND_\w+)` \| (?!folder)", readme, re.MULTILINE))
    assert read == listed
