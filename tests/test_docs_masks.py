"""The pictures of docs/masks.md show what the operator does, and the example of the page runs."""

import re
import sys

import pytest


@pytest.fixture(scope="module")
def page(run):
    return (run.ROOT / "docs/masks.md").read_text(encoding="utf-8")


def test_pictures_are_what_the_operator_does(run, moved_prefix, tmp_path):
    """Drawn again by the installed operator, byte for byte."""
    folder = run.ROOT / "docs/masks"
    run.sourced(moved_prefix, f'"{sys.executable}" -B "{folder}/draw.py" "{tmp_path}"')
    drawn = {path.name: path.read_text(encoding="utf-8") for path in tmp_path.glob("*.svg")}
    kept = {path.name: path.read_text(encoding="utf-8") for path in folder.glob("*.svg")}
    assert len(drawn) > 9 and sorted(drawn) == sorted(kept)
    different = [name for name, text in drawn.items() if text != kept[name]]
    assert different == [], "look at them, and if they are right run docs/masks/draw.py"


def test_every_picture_is_shown(run, page):
    shown = re.findall(r"!\[[^\]]+\]\(masks/([\w-]+\.svg)\)", page)
    assert sorted(shown) == sorted(path.name for path in (run.ROOT / "docs/masks").glob("*.svg"))


def test_links_within_the_page(page):
    places = set(re.findall(r'<a id="([\w-]+)">', page))
    for title in re.findall(r"^#+ (.*)", page, re.MULTILINE):
        places.add(re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-"))
    links = re.findall(r"\]\(#([\w-]+)\)", page)
    assert len(links) > 9 and set(links) <= places


def test_window_example(run, page, moved_prefix, tmp_path):
    (source,) = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    (tmp_path / "window.py").write_text(source)
    done = run.sourced(moved_prefix, f'"{sys.executable}" window.py', cwd=tmp_path)
    assert done.stdout.splitlines()[-1] == "tensor(True)"
