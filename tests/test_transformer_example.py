"""cann-learning-hub/examples/flash_attention_transformer: its check, its table, and what its page shows."""

import json
import re
import shutil
import struct
import sys
from hashlib import sha256

import pytest

ATTENTIONS = ["native", "tiled", "ops_transformer"]


@pytest.fixture
def example(run, tmp_path):
    return shutil.copytree(run.ROOT / "cann-learning-hub/examples/flash_attention_transformer", tmp_path / "example",
                           ignore=shutil.ignore_patterns("__pycache__"))


@pytest.fixture
def run_example(run, moved_prefix, example):
    """The example's script in a shell with the installed tree."""
    def start(arguments, **options):
        return run.sourced(moved_prefix, f'PYTHON="{sys.executable}" bash "{example}/run.sh" {arguments}', **options)
    return start


def change(path, old, new):
    text = path.read_text()
    assert text.count(old) == 1
    path.write_text(text.replace(old, new))


@pytest.mark.parametrize("arguments", ["--length 300", "--device npu --dtype bf16 --length 257"])
def test_attentions_agree(run_example, arguments):
    """More than one tile of the tiled attention, and no multiple of one."""
    lines = run_example(f"{arguments} --heads 2").stdout.splitlines()
    assert [re.match(r"  (\w+) +logits \S+  gradients \S+$", line)[1] for line in lines[1:4]] == ATTENTIONS
    trained = [re.match(r"  (\w+) +(\S+) (\S+)  (\d+) of 16$", line).groups() for line in lines[5:]]
    assert [name for name, *_ in trained] == ATTENTIONS
    for _, first, last, right in trained:
        assert float(last) < float(first) / 4 and int(right) >= 14


@pytest.mark.parametrize("wrong", ["window=(298, 0)", "scale=0.12"])
def test_other_attention_is_noticed(run_example, example, wrong):
    """A window that takes one key from one of the rows, a scale that is four hundredths off."""
    change(example / "attention.py", "causal=True)", f"causal=True, {wrong})")
    done = run_example("--length 300 --heads 2", code=1)
    assert done.stdout.splitlines()[-1] == "not within 3 times the errors of native attention: ops_transformer"


def test_wrong_arguments(run_example):
    assert "--length must be positive: got 0" in run_example("--length 0", code=2).stderr


def test_table(run_example, example, tmp_path):
    """One length of each work. The scores of 2048 tokens are 16 MiB a head, and native attention holds them twice."""
    (example / "results.json").unlink()
    change(example / "run.py", '"training": [1024, 2048, 4096]', '"training": [512]')
    change(example / "run.py", '"inference": [1024, 2048, 4096, 8192, 16384, 32768]', '"inference": [2048]')
    run_example("--table --longest 2048 --heads 1")
    results = json.loads((example / "results.json").read_text())
    assert results.keys() == {"processor", "threads", "torch", "device", "dtype", "load", "rows"}
    rows = {(row["work"], row["attention"]): row for row in results["rows"]}
    assert len(rows) == len(results["rows"]) == 9
    for (work, name), row in rows.items():
        assert row["heads"] == 1 and row["length"] == (512 if work == "training" else 2048)
        assert row["baseline_mib"] > 50 and row["peak_mib"] >= 0
        assert ("tokens_per_second" in row) == (work != "attention")
        assert row.get("tokens_per_second", 1) > 0
    assert 32 <= rows["attention", "native"]["peak_mib"] < 48
    assert rows["attention", "ops_transformer"]["peak_mib"] < 4 and rows["attention", "tiled"]["peak_mib"] < 8
    page = (example / "README.md").read_text()
    native, ours = rows["inference", "native"], rows["inference", "ops_transformer"]
    share = round(100 * ours["tokens_per_second"] / native["tokens_per_second"])
    assert re.search(rf"^\| ops_transformer \| 180 % \| {share} % \|$", page, re.MULTILINE)
    assert picture_size(example / "results.png") == (1320, 528)


def picture_size(path):
    header = path.read_bytes()[:24]
    assert header[:8] == b"\x89PNG\r\n\x1a\n"
    return struct.unpack(">II", header[16:])


def test_page_and_picture_follow_the_results(run_example, example, run):
    kept = run.ROOT / "cann-learning-hub/examples/flash_attention_transformer"
    again = "run `bash run.sh --report` and look at the picture"
    digest = sha256((kept / "results.json").read_bytes()).hexdigest().encode()
    assert digest in (kept / "results.png").read_bytes(), again
    run_example("--report")
    assert (example / "README.md").read_text() == (kept / "README.md").read_text(), again
    assert picture_size(kept / "results.png") == picture_size(example / "results.png")


def test_kept_results_are_whole(run):
    """Up to the article's 32K, where native attention has to fit, too."""
    path = run.ROOT / "cann-learning-hub/examples/flash_attention_transformer/results.json"
    rows = json.loads(path.read_text())["rows"]
    lengths = {work: sorted({row["length"] for row in rows if row["work"] == work})
               for work in ("inference", "training", "attention")}
    assert lengths == {"inference": [1024, 2048, 4096, 8192, 16384, 32768], "training": [1024, 2048, 4096],
                       "attention": [32768]}
    assert len(rows) == 3 * sum(map(len, lengths.values())) and path.stat().st_size < 20_000
