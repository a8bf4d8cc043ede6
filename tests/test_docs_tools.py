"""docs/tools.md: commands, options and drawings are those of the tools."""

import re
import sys

import pytest


@pytest.fixture(scope="module")
def page(run):
    return (run.ROOT / "docs/tools.md").read_text(encoding="utf-8")


@pytest.fixture
def tool(run, moved_prefix, tmp_path):
    def ask(words):
        return run.sourced(moved_prefix, f'"{sys.executable}" -m ops_transformer {words}', cwd=tmp_path).stdout

    return ask


def chapter(page, command):
    (text,) = re.findall(rf"^## {command}\n((?:(?!## ).*\n)*)", page, re.MULTILINE)
    return text


def test_commands(page, tool):
    listed = re.findall(r"^\| \[?`(\w+)`", page.split("\n## ")[0], re.MULTILINE)
    assert listed == re.findall(r"^    (\w+) ", tool("--help"), re.MULTILINE)


@pytest.mark.parametrize("command", ["info", "mask", "verify", "bench"])
def test_options(page, tool, command):
    """The table of a chapter has every option, in the order of --help."""
    rows = re.findall(r"^\| (`--.*?) \|", chapter(page, command), re.MULTILINE)
    listed = [option for row in rows for option in re.findall(r"--[\w-]+", row)]
    assert listed == re.findall(r"^  (--[\w-]+)", tool(f"{command} --help"), re.MULTILINE)


def test_drawings(page, tool):
    """Of mask: what is shown is what the attention does."""
    shown = re.findall(r"```console\n\$ python -m ops_transformer (.*)\n((?:.*\n)*?)```", chapter(page, "mask"))
    assert len(shown) == 3
    for words, text in shown:
        assert tool(words) == text, words


def test_problem_strings(page, tool):
    """Of verify: the errors are those of one processor's kernels, all else is the same on every machine."""
    shown = re.findall(r"```console\n\$ python -m ops_transformer (.*)\n((?:.*\n)*?)```", chapter(page, "verify"))
    assert len(shown) == 2
    for words, text in shown:
        columns = [[line.split()[:4] for line in lines.splitlines() if re.match(r"(fp|bf)\d\d ", line)] for lines in (text, tool(words))]
        assert columns[0] == columns[1] and columns[0], words
        assert text.splitlines()[-1] == tool(words).splitlines()[-1]
