"""python -m ops_transformer mask: the drawn cells are those that the rules name, in the terminal and in the picture."""
import os
import re
from types import SimpleNamespace

import pytest
from ops_transformer.__main__ import main

MANY = 10**9


@pytest.fixture
def draw(capsys, monkeypatch):
    """Runs the command in this process, since most of the time of a new one would go into the import of torch."""
    monkeypatch.setenv("ASCEND_CPU_LOG", os.environ.get("ASCEND_CPU_LOG", "warn"))  # for the tests that follow

    def run(*words, code=0):
        assert main(["mask", *map(str, words)]) == code
        return SimpleNamespace(**capsys.readouterr()._asdict())

    return run


def grid(text):
    """Of the drawing in a text: for each row a text of 1 and 0; blanks between sequences are left out."""
    rows = re.findall(r"^ +\d+  ([█· ]+)$", text, re.MULTILINE)
    return [row.replace(" ", "").replace("█", "1").replace("·", "0") for row in rows]


def rule(queries, keys, sees):
    return ["".join("01"[bool(sees(i, j))] for j in range(keys)) for i in range(queries)]


def band(queries, keys, left=MANY, right=MANY):
    """Along the diagonal that ends at the last key."""
    return rule(queries, keys, lambda i, j: i + keys - queries - left <= j <= i + keys - queries + right)


@pytest.mark.parametrize("words, expected", [
    ("", rule(8, 8, lambda i, j: True)),
    ("--queries 3 --keys 5", rule(3, 5, lambda i, j: True)),
    ("--causal", band(8, 8, right=0)),
    ("--causal --queries 4 --keys 9", band(4, 9, right=0)),
    ("--causal --queries 7 --keys 4", band(7, 4, right=0)),
    ("--window 2,1 --queries 6 --keys 7", band(6, 7, 2, 1)),
    ("--window ,1", band(8, 8, right=1)),
    ("--window 3,", band(8, 8, left=3)),
    ("--causal --window 2,0", band(8, 8, 2, 0)),
    ("--sparse-mode 0 --pre-tokens 2 --next-tokens 1 --queries 4 --keys 7", rule(4, 7, lambda i, j: i - 2 <= j <= i + 1)),
    ("--sparse-mode 1 --queries 2", rule(2, 2, lambda i, j: True)),
    ("--sparse-mode 2 --queries 4 --keys 7", rule(4, 7, lambda i, j: j <= i)),
    ("--sparse-mode 3 --queries 4 --keys 7", band(4, 7, right=0)),
    ("--sparse-mode 4 --pre-tokens 2 --next-tokens 1 --queries 4 --keys 7", band(4, 7, 2, 1)),
    ("--sparse-mode 5 --prefix 5 --queries 4 --keys 7", rule(4, 7, lambda i, j: j <= i + 3 or j < 5)),
    ("--sparse-mode 6 --prefix 5 --queries 4 --keys 7", rule(4, 7, lambda i, j: j <= i + 3 or j < 5)),
])
def test_dense(draw, words, expected):
    text = draw(*words.split()).out
    assert grid(text) == expected
    seen = "".join(expected).count("1")
    assert f"visible: {seen} of {len(expected) * len(expected[0])} pairs" in text
    blind = sum("1" not in row for row in expected)
    assert ("queries see nothing" in text) == (blind > 0)


def packed(sequences, sees):
    """sees(i, j, queries, keys) within a sequence; nothing is seen across."""
    rows = []
    keys_before, keys_all = 0, sum(keys for _, keys in sequences)
    for queries, keys in sequences:
        for row in rule(queries, keys, lambda i, j: sees(i, j, queries, keys)):
            rows.append(("0" * keys_before + row).ljust(keys_all, "0"))
        keys_before += keys
    return rows


@pytest.mark.parametrize("words, expected", [
    ("--lengths 3,2", packed([(3, 3), (2, 2)], lambda i, j, q, k: True)),
    ("--causal --lengths 3,0,2:6", packed([(3, 3), (0, 0), (2, 6)], lambda i, j, q, k: j <= i + k - q)),
    ("--causal --window 1,0 --lengths 4:6,3", packed([(4, 6), (3, 3)], lambda i, j, q, k: i + k - q - 1 <= j <= i + k - q)),
    ("--sparse-mode 2 --lengths 2:4,3", packed([(2, 4), (3, 3)], lambda i, j, q, k: j <= i)),
    ("--sparse-mode 7 --pre-tokens 6 --next-tokens -2 --lengths 3,2:6",
     packed([(3, 3), (2, 6)], lambda i, j, q, k: j <= i + k - q - (2 if k == 6 else 0))),
])
def test_packed(draw, words, expected):
    assert grid(draw(*words.split()).out) == expected


def test_more_keys_than_one_call_has(draw, monkeypatch):
    """The values of a call have 768 features at most, so that 1600 keys are asked for in three; one character is 25 x 25 pairs."""
    monkeypatch.setenv("COLUMNS", "110")
    text = draw("--window", "31,0", "--queries", 1600).out
    assert "one character stands for 25 x 25 pairs" in text
    rows = re.findall(r"^ +\d+  ([█▒·]+)$", text, re.MULTILINE)
    sees = [[sum(0 <= i - j <= 31 for i in range(25 * row, 25 * row + 25) for j in range(25 * key, 25 * key + 25))
             for key in range(64)] for row in range(64)]
    assert rows == ["".join("█" if count == 625 else "▒" if count else "·" for count in line) for line in sees]


def test_labels(draw):
    """Every tenth key is named above its column, every row at its left; sequences are apart."""
    lines = draw("--lengths", "2,23").out.splitlines()
    ruler = next(line for line in lines if line.endswith("20"))
    rows = {int(line.split()[0]): line for line in lines if re.match(r" +\d+  ", line) and line != ruler}
    assert sorted(rows) == list(range(25))
    assert [ruler.index(label) for label in ("10", "20")] == [rows[3].index("·") + 11, rows[3].index("·") + 21]
    assert lines[lines.index(rows[1]) + 1] == ""


@pytest.mark.parametrize("words, part", [
    ("--queries 0", "--queries 0"),
    ("--keys 4097", "--keys 4097"),
    ("--window 3", "--window 3"),
    ("--window a,b", "--window a,b"),
    ("--lengths 3,x", "'x'"),
    ("--lengths 3,1:2:3", "'1:2:3'"),
    ("--lengths 0,0", "0 queries"),
    ("--lengths 3 --queries 3", "--queries 3"),
    ("--prefix 3", "--prefix"),
    ("--sparse-mode 9", "sparse_mode"),
    ("--causal --window 2,1", "window"),
    ("--causal --sparse-mode 3", "sparse_mode"),
    ("--sparse-mode 6 --prefix 100", "prefixOptional[0] is 100"),
    ("--causal --lengths 5:3", "Sq 5 > Skv 3"),
])
def test_wrong_arguments(draw, words, part):
    text = draw(*words.split(), code=2).err
    assert re.fullmatch(r"error: .*\n", text) and part in text, text


def test_refusal_of_the_operator(run_tool):
    """One line, without what the library logs about it."""
    text = run_tool("mask", "--causal", "--lengths", "5:3", code=2, ASCEND_CPU_LOG="").stderr
    assert re.fullmatch(r"error: aclnn\w+: .*Sq 5 > Skv 3.*\n", text), text


def test_output_without_unicode(run_tool):
    text = run_tool("mask", "--causal", "--queries", 3, PYTHONIOENCODING="ascii").stdout
    assert re.findall(r"^ +\d  ([#.]+)$", text, re.MULTILINE) == ["#..", "##.", "###"]


# ---- PNG ------------------------------------------------------------------------------------------------------------------


@pytest.fixture
def pixels(draw, tmp_path):
    """Draws and reads a picture: (height, width, 3) of 0 to 255."""
    pytest.importorskip("matplotlib")
    import matplotlib.image

    def read(*words):
        path = tmp_path / "mask.png"
        assert f"written: {path}\n" in draw(*words, "--png", path).out
        assert path.read_bytes()[:8] == b"\x89PNG\r\n\x1a\n"
        return (matplotlib.image.imread(path)[:, :, :3] * 255).round().astype(int)

    return read


def colours(image, queries, keys):
    from ops_transformer.tools import picture

    cell = picture.cell_pixels(queries, keys)
    names = {picture.VISIBLE: "1", picture.HIDDEN: "0"}
    return ["".join(names[tuple(image[picture.TOP + int((i + 0.5) * cell), picture.LEFT + int((j + 0.5) * cell)])]
                    for j in range(keys)) for i in range(queries)]


def test_picture(pixels):
    from ops_transformer.tools import picture

    image = pixels("--causal", "--queries", 6, "--keys", 30)
    assert image.shape[0] == picture.TOP + 6 * 24 + picture.BOTTOM
    assert image.shape[1] == picture.LEFT + 30 * 24 + picture.RIGHT
    assert colours(image, 6, 30) == band(6, 30, right=0)
    assert (image[:picture.TOP] < 80).any() and (image[:, :picture.LEFT - 10] < 80).any(), "title and labels"


def test_picture_of_many_pairs(pixels):
    assert colours(pixels("--window", "20,3", "--queries", 300), 300, 300) == band(300, 300, 20, 3)


def test_picture_of_packed_sequences(pixels):
    sequences = [(3, 3), (4, 9)]
    image = pixels("--causal", "--lengths", "3,4:9")
    assert colours(image, 7, 12) == packed(sequences, lambda i, j, q, k: j <= i + k - q)


def test_folder_that_does_not_exist(draw, tmp_path):
    pytest.importorskip("matplotlib")
    assert "nothing/mask.png: No such file or directory" in draw("--png", tmp_path / "nothing/mask.png", code=2).err


def test_without_matplotlib(run_tool, tmp_path):
    """A module of that name that cannot be imported stands for none."""
    (tmp_path / "matplotlib").mkdir()
    (tmp_path / "matplotlib/__init__.py").write_text("raise ImportError('none')")
    variables = {"PYTHONPATH": f"{tmp_path}:{os.environ.get('PYTHONPATH', '')}"}
    done = run_tool("mask", "--png", tmp_path / "mask.png", code=1, **variables)
    assert done.stderr == "error: --png needs matplotlib: pip install rich matplotlib\n"
    assert not (tmp_path / "mask.png").exists()
    assert grid(run_tool("mask", "--queries", 2, **variables).stdout) == ["11", "11"]
