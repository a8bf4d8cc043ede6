"""python -m ops_transformer bench, and what it counts."""
import json
import struct

import pytest

from ops_transformer.tools import Fault, contenders, measure
from ops_transformer.tools.measure import Case

SMALL = ("--tokens", "32,64", "--heads", "4", "--head-dim", "16", "--threads", "1", "--rounds", "2", "--seconds", "0")


@pytest.mark.parametrize("options", [
    {}, {"causal": True}, {"window": (5, 2)}, {"window": (None, 1)}, {"window": (4, None)}, {"causal": True, "window": (3, None)},
    {"window": (-2, 9)}, {"causal": True, "queries": 13}, {"causal": True, "queries": 30}, {"window": (3, 0), "queries": 1},
], ids=str)
def test_useful_work(options):
    """Counted on the whole grid, by the rule in words: a query sits beside the key that is as far from the end."""
    case = Case(**{"batch": 3, "heads": 4, "kv_heads": 2, "queries": 20, "keys": 20, "head_dim": 8} | options)
    left, right = case.window or (None, None)
    seen = 0
    for query in range(case.queries):
        for key in range(case.keys):
            distance = (case.keys - 1 - key) - (case.queries - 1 - query)  # how far the key is to the left of the query
            hidden = (case.causal and distance < 0 or left is not None and distance > left
                      or right is not None and distance < -right)
            seen += not hidden
    assert case.pairs() == seen == contenders.seen_mask(case).sum() > 0
    assert case.flops() == 2 * 2 * seen * 3 * 4 * 8
    backward = measure.dataclasses.replace(case, backward=True)
    assert backward.flops() == 2 * (2 + 5) * seen * 3 * 4 * 8


def test_turns():
    """All in each round, every second one backwards; as many rounds as asked for, and no more after the limit."""
    order = []

    def contender(name, seconds):
        return lambda: order.append(name) or seconds

    times = measure.by_turns({"a": contender("a", 1.0), "b": contender("b", 3.0)}, rounds=3, seconds=0)
    assert order == ["a", "b", "b", "a", "a", "b"]
    assert times == {"a": [1.0] * 3, "b": [3.0] * 3} and measure.times_faster(times["a"], times["b"]) == 3.0
    assert [len(each) for each in measure.by_turns({"a": contender("a", 1.0)}, rounds=3, seconds=0, limit=0).values()] == [1]
    assert measure.summary([0.5, 0.25, 1.0], 1e9) == {"best_ms": 250.0, "median_ms": 500.0, "gflops": 4.0, "rounds": 3}


def test_results_are_compared():
    import torch

    case = Case(heads=1, queries=2, keys=2, head_dim=4)
    ones = torch.ones(1, 1, 2, 4)
    assert contenders.check_alike(case, "other", ones, ones) == 0.0
    for wrong in (ones * 1.1, ones * float("inf")):
        with pytest.raises(Fault, match="other gives another result"):
            contenders.check_alike(case, "other", ones, wrong)


@pytest.mark.parametrize("options, mask, products", [
    ([], "no mask", 2), (["--causal"], "causal", 2), (["--causal", "--window", "7,", "--keys", "96"], "window 7,0", 2),
    (["--window", "5,3", "--kv-heads", "2", "--dtype", "fp16,bf16"], "window 5,3", 2), (["--causal", "--backward"], "causal", 7),
], ids=str)
def test_measures(run_tool, tmp_path, options, mask, products):
    shown = run_tool("bench", *SMALL, *options, "--json", tmp_path / "out.json").stdout
    results = json.loads((tmp_path / "out.json").read_text())
    assert results["machine"].keys() == {"processor", "processors", "kernels", "torch", "threads"}
    assert results["machine"]["processor"] in shown and f"torch {results['machine']['torch']}" in shown and "1 thread" in shown
    types = 2 if "--dtype" in options else 1
    assert [row["case"]["queries"] for row in results["rows"]] == [32, 64] * types
    for row in results["rows"]:
        assert row["case"]["mask"] == mask and mask in shown
        assert row["flops"] % (2 * products * 4 * 16) == 0  # each head and feature
        mine, other = row["contenders"]["ops_transformer"], row["contenders"]["PyTorch SDPA"]
        for found in mine, other:
            assert 0 < found["best_ms"] <= found["median_ms"] and found["rounds"] == 2
            assert found["gflops"] == pytest.approx(row["flops"] / found["best_ms"] * 1e-6)
        assert other["faster"] > 0 and 0 <= other["difference"] < 0.06 and row["mm_gflops"] > 0
    assert len([line for line in shown.splitlines() if line.endswith(" x")]) == 2 * types


def test_picture(run_tool, tmp_path):
    pytest.importorskip("matplotlib")
    run_tool("bench", *SMALL, "--png", tmp_path / "speed.png")
    picture = (tmp_path / "speed.png").read_bytes()
    assert picture[:8] == b"\x89PNG\r\n\x1a\n"
    width, height = struct.unpack(">II", picture[16:24])
    assert 400 < width < 1200 and 300 < height < 900


@pytest.mark.parametrize("options, words", [
    (["--heads", "4", "--kv-heads", "3"], ["--heads", "4", "--kv-heads", "3"]),
    (["--threads", "0"], ["--threads", "0", "at least 1"]),
    (["--threads", "100000"], ["--threads", "100000", "at most"]),
    (["--seconds", "nan"], ["--seconds", "nan", "at least 0"]),
    (["--causal", "--window", "3,1"], ["--window", "1", "--causal"]),
    (["--window", "3"], ["--window", "'3'", "LEFT,RIGHT"]),
    (["--tokens", "5,no"], ["--tokens", "5,no", "at least 1"]),
    (["--dtype", "fp64"], ["--dtype", "fp64", "bf16"]),
    (["--head-dim", "1000"], ["1000", "768"]),
])
def test_refusals(run_tool, options, words):
    error = run_tool("bench", *options, "--json", "never-written.json", code=2).stderr.splitlines()[-1]
    assert error.startswith("error: ") and [word for word in words if word not in error] == []


@pytest.mark.parametrize("option", ["--json", "--png"])
def test_files_that_cannot_be_written(run_tool, tmp_path, option):
    if option == "--png":
        pytest.importorskip("matplotlib")
    path = tmp_path / "missing" / "file.png"
    error = run_tool("bench", *SMALL, option, path, code=2).stderr.splitlines()[-1]
    assert error == f"error: {option} {path}: No such file or directory"
