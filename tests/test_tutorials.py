"""The pages of cann-learning-hub do what they say: every block runs, and shows what the page shows.

A page is one shell session. Its Python blocks are programs that run in it, C++ blocks are files, plain text is what the
block before it prints. "fails" behind the language: the block ends in an error, and its text shows standard error too.
"""

import re
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

TUTORIALS = "cann-learning-hub/docs/tutorials"
FENCE = re.compile(r"^```(\w+) ?(.*?)\n(.*?)^```$", re.DOTALL | re.MULTILINE)


class Block(NamedTuple):
    language: str
    word: str  # behind the language: "fails", or the name of a file
    text: str
    shown: str | None  # the text behind the block


def blocks_of(page):
    found = []
    for language, word, text in FENCE.findall(page):
        if language != "text":
            found.append(Block(language, word, text, None))
        else:
            assert found and found[-1].shown is None, f"text without a block that shows it: {text}"
            found[-1] = found[-1]._replace(shown=text)
    return found


def session(blocks, folder):
    """The lines of a shell script that runs the blocks, each with its output in files."""
    lines = ["set -e"]
    for number, (language, word, text, _) in enumerate(blocks):
        suffix = {"sh": "sh", "python": "py", "cpp": "cpp"}[language]
        file = folder / f"block{number}.{suffix}"
        file.write_text(text, encoding="utf-8")
        command = {"sh": f'. "{file}"', "python": f'python "{file}"', "cpp": f'cp "{file}" "{word}"'}[language]
        output = f'>"{folder}/out{number}" 2>"{folder}/err{number}"'
        if word == "fails":
            lines.append(f"if ( {command} ) {output}; then echo 'block {number} does not fail'; exit 1; fi")
        else:
            lines.append(f"{{ {command}; }} {output}")
    return "\n".join(lines)


def pattern(shown):
    """A line of a page as an expression: … stands for anything within it, and alone for any number of lines."""
    def of(line):
        return r"(?:.*\n)*?" if line == "…" else ".*".join(map(re.escape, line.split("…"))) + r"[ \t]*\n"

    return re.compile("".join(of(line.rstrip()) for line in shown.splitlines()))


def follow(run, page, cwd, folder, env=None):
    """Runs a page's blocks in `cwd`, as a reader does who has activated the environment of this interpreter."""
    blocks = blocks_of(page.read_text(encoding="utf-8"))
    (folder / "page.sh").write_text(session(blocks, folder), encoding="utf-8")
    path = f"{Path(sys.executable).parent}:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
    done = run("bash", folder / "page.sh", cwd=cwd, env={"PATH": path} | (env or {}), code=None, timeout=3600)
    for number, block in enumerate(blocks):
        out, err = ((folder / f"{name}{number}") for name in ("out", "err"))
        place = f"{page.parent.name}, block {number}:\n{block.text}"
        assert out.exists(), f"{place}\nwas not reached: {done.stdout}"
        printed = out.read_text() + (err.read_text() if block.word == "fails" else "")
        if done.returncode != 0 and not (folder / f"out{number + 1}").exists():
            ends = "".join(text[-3000:] for text in (done.stdout, out.read_text(), err.read_text()))
            pytest.fail(f"{place}\nfailed, code {done.returncode}: {ends}")
        if block.shown is not None:
            assert pattern(block.shown).fullmatch(printed), f"{place}\nshows\n{block.shown}\nbut printed\n{printed}"
    assert done.returncode == 0, done.stdout
    return blocks


def test_getting_started(run, sources, home, tmp_path):
    """In the copy of the sources that test_component_builds.py uses as well, so that it compiles once."""
    blocks = follow(run, run.ROOT / TUTORIALS / "01_getting_started/README.md", sources, tmp_path, {"HOME": str(home)})
    assert len(blocks) >= 8


@pytest.mark.parametrize("page", ["02_operator_development", "03_model_migration"])
def test_page(run, moved_prefix, tmp_path, page):
    top = tmp_path / "top"
    top.mkdir()
    (top / "install").symlink_to(moved_prefix)
    for path in run.ROOT.iterdir():
        if path.name not in ("install", "build") and not path.name.startswith("."):
            (top / path.name).symlink_to(path)
    assert len(follow(run, run.ROOT / TUTORIALS / f"{page}/README.md", top, tmp_path)) >= 6


def test_every_page_is_listed_and_links_lead_somewhere(run):
    hub = run.ROOT / "cann-learning-hub"
    index = (run.ROOT / TUTORIALS / "README.md").read_text(encoding="utf-8")
    pages = sorted(path.parent.name for path in (run.ROOT / TUTORIALS).glob("*/README.md"))
    assert pages == ["01_getting_started", "02_operator_development", "03_model_migration"]
    assert all(f"({page}/README.md)" in index for page in pages)
    for path in hub.rglob("*.md"):
        for link, place in re.findall(r"\]\(([^)#:\s]*)(?:#([\w-]+))?\)", path.read_text(encoding="utf-8")):
            target = path.parent / link if link else path
            assert target.exists(), f"{path.relative_to(run.ROOT)}: {link}"
            titles = re.findall(r"^#+ (.*)", target.read_text(encoding="utf-8"), re.MULTILINE) if place else []
            places = [re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-") for title in titles]
            assert not place or place in places, f"{path.relative_to(run.ROOT)}: #{place}"


def test_a_page_that_lies_is_noticed(run, tmp_path):
    """Wrong output, a block that fails, one that should and does not."""
    def outcome(text):
        page = tmp_path / "page/README.md"
        page.parent.mkdir(exist_ok=True)
        page.write_text(text)
        for file in tmp_path.glob("*[0-9]"):
            file.unlink()
        follow(run, page, tmp_path, tmp_path)

    outcome("```sh\ncd /tmp; word=one\n```\n```sh\npwd; echo $word two\n```\n```text\n/tmp\n…two\n```\n")
    outcome("```python fails\nraise ValueError('no')\n```\n```text\n…\nValueError: no\n```\n")
    for wrong, words in [("```sh\necho one\n```\n```text\ntwo\n```\n", "but printed"),
                         ("```sh\nfalse\n```\n", "failed, code 1"),
                         ("```python\n1 / 0\n```\n```sh\ntrue\n```\n", "ZeroDivisionError"),
                         ("```sh fails\ntrue\n```\n", "does not fail")]:
        with pytest.raises((AssertionError, pytest.fail.Exception), match=words):
            outcome(wrong)
