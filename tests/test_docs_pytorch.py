"""The examples of docs/pytorch.md do what it says."""

import re
import sys

import pytest

EXAMPLES = ["HuggingFace transformers", "scaled_dot_product_attention"]


@pytest.mark.parametrize("title", EXAMPLES)
def test_example(run, moved_prefix, tmp_path, title):
    page = (run.ROOT / "docs/pytorch.md").read_text(encoding="utf-8")
    assert page.count("```python") == len(EXAMPLES)
    source = re.search(rf"### {title}\n.*?```python\n(.*?)```", page, re.DOTALL).group(1)
    (tmp_path / "example.py").write_text(source)
    done = run.sourced(moved_prefix, f'"{sys.executable}" example.py', cwd=tmp_path)
    assert done.stdout.splitlines()[-1] == re.search(r"^print.*  # (.*)", source, re.MULTILINE).group(1)
    if title == "scaled_dot_product_attention":
        assert "a call of scaled_dot_product_attention goes to PyTorch: dropout_p > 0" in done.stderr
