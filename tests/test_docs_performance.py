"""The pictures and tables of docs/performance.md say what the kernels' source and the kept results say."""

import json
import re
import shutil
import sys

import pytest

DRAW_AGAIN = "look at them, and if they are right run docs/performance/draw.py"
WRITE_AGAIN = "run docs/performance/table.py --write docs/performance.md"


@pytest.fixture
def script(run):
    """Runs a script of the folder."""
    folder = run.ROOT / "docs/performance"
    return lambda name, *arguments, **options: run(sys.executable, "-B", folder / name, *arguments, **options)


@pytest.fixture(scope="module")
def page(run):
    return (run.ROOT / "docs/performance.md").read_text(encoding="utf-8")


@pytest.fixture
def other_source(run, tmp_path):
    """A copy of the scripts and the kernels, to change the kernels in."""
    kernels = "ops-transformer/ops/flash_attention/kernels"
    for folder in ("docs/performance", kernels):
        shutil.copytree(run.ROOT / folder, tmp_path / folder)

    def change(file, old, new):
        path = tmp_path / kernels / file
        text = path.read_text(encoding="utf-8")
        assert text.count(old) == 1
        path.write_text(text.replace(old, new), encoding="utf-8")
    return tmp_path, change


def pictures(folder):
    return {path.name: path.read_text(encoding="utf-8") for path in folder.glob("*.svg")}


def test_pictures_follow_the_source(run, script, tmp_path):
    """Drawn again, byte for byte."""
    script("draw.py", tmp_path)
    drawn, kept = pictures(tmp_path), pictures(run.ROOT / "docs/performance")
    assert len(drawn) > 3 and sorted(drawn) == sorted(kept)
    different = [name for name, text in drawn.items() if text != kept[name]]
    assert different == [], DRAW_AGAIN


@pytest.mark.parametrize("file, old, new, changed", [
    ("vec_avx2.h", "int tile_rows = 4;", "int tile_rows = 2;", "avx2"),
    ("vec_avx512.h", "int feature_chain = 16;", "int feature_chain = 32;", "tile-avx512"),
    ("key_block.h", "kKeyBlock = 192;", "kKeyBlock = 96;", ""),
    ("softmax.h", "kRiseLimit = 12.0F;", "kRiseLimit = 9.0F;", "tile-"),
    ("forward.h", "kKeyGroup = 8 * kKeyBlock;", "kKeyGroup = 4 * kKeyBlock;", "tiling-"),
])
def test_other_source_other_pictures(run, other_source, file, old, new, changed):
    """A number that changes in the source changes the pictures that show it, and no others."""
    root, change = other_source
    change(file, old, new)
    folder = root / "docs/performance"
    run(sys.executable, "-B", folder / "draw.py")
    kept = pictures(run.ROOT / "docs/performance")
    assert [name for name, text in pictures(folder).items() if (text != kept[name]) != (changed in name)] == []


def test_renamed_constant_is_noticed(run, other_source):
    root, change = other_source
    change("key_block.h", "kKeyBlock = 192;", "kBlockOfKeys = 192;")
    done = run(sys.executable, "-B", root / "docs/performance/draw.py", code=1)
    assert 'key_block.h: "kKeyBlock = #;"' in done.stderr


def test_tables_follow_source_and_results(script, page, tmp_path):
    (tmp_path / "page.md").write_text(page, encoding="utf-8")
    script("table.py", "--write", tmp_path / "page.md")
    assert (tmp_path / "page.md").read_text(encoding="utf-8") == page, WRITE_AGAIN


def test_kept_results(run):
    """Small, and without anything that tells more about a machine than its processor."""
    files = sorted((run.ROOT / "docs/performance/results").glob("*.json"))
    assert files
    for file in files:
        assert file.stat().st_size < 100_000
        keys = json.loads(file.read_text(encoding="utf-8")).keys()
        assert keys == {"processor", "table", "threads", "compiler", "results"}


def result(case, **fields):
    return {"case": case, "threads": 1, "gflops": 50.0, "peak_gflops": 100.0, "percent_of_peak": 50.0} | fields


def test_every_kind_of_result(script, tmp_path):
    """Each ends up in the right cell; a missed floor stands out."""
    plain = "layout=BNSD dtype={} n=8 d=64 q=1024 kv=1024"
    beside = {"case": plain.format("fp32"), "threads": 1, "seconds": 0.5}
    cases = [
        result(plain.format("fp32"), gflops=61.4, percent_of_peak=61.2),
        result(plain.format("fp32").replace("1024", "2048"), gflops=62.4, percent_of_peak=61.7),
        result(plain.format("bf16") + " mode=3 mask=compressed", gflops=32.2),
        result(plain.format("fp16") + " mode=4 pre=255 next=0 mask=compressed", gflops=33.3),
        result("layout=BNSD dtype=fp32 n=8/1 d=64 q=1024 kv=1024", partner=beside, share=0.944, floor=0.95),
        result("layout=BSH dtype=fp32 n=8 d=64 q=1024 kv=1024", partner=beside, share=0.951, floor=0.95),
        result(plain.format("fp32"), threads=2, peak_gflops=200.0, partner=beside, share=1.93, floor=1.85),
        result("layout=BNSD dtype=fp32 b=8 n=32/8 d=128 q=1 kv=4096",
               gigabytes_per_second=12.34, percent_of_reading=56.7),
        result("layout=BNSD dtype=fp32 n=8 d=64 q=7 kv=1024", gflops=21.0),
    ]
    # The same of backward. A table of shares names what differs from the most common partner.
    long = plain.format("fp32").replace("n=8", "n=1").replace("1024", "8192")
    for case in cases[:2] + cases[4:7] + [result(long, threads=2, partner=beside, share=1.7, floor=1.8)]:
        case = case | {"case": case["case"].replace("dtype=fp32", "dtype=fp32 pass=backward")}
        if "partner" in case:
            case["partner"] = beside | {"case": beside["case"].replace("dtype=fp32", "dtype=fp32 pass=backward")}
            case["share"] -= 0.1
        cases.append(case)
    ring = "operator=ring layout=SBH dtype={} n=8 d={} q=4096"
    for name, features, speed in ("fp32", 64, 9.7), ("fp32", 128, 8.9), ("bf16", 64, 4.4):
        cases.append({"case": ring.format(name, features), "threads": 1, "gigabytes_per_second": speed,
                      "sum_gigabytes_per_second": 20.0, "share_of_sum": 0.407})
    for bits, speed in (1048576, 4.2), (67108864, 0.9):
        cases.append({"case": f"operator=dropout bits={bits}", "threads": 1, "gigabytes_per_second": speed,
                      "floor_of_thread": 1.0})
    machine = {"processor": "A CPU", "table": "avx2", "threads": 1, "compiler": "g++ 12", "results": cases}
    (tmp_path / "results.json").write_text(json.dumps(machine))
    lines = script("table.py", tmp_path / "results.json").stdout.splitlines()
    for line in ["### A CPU, kernels `avx2`, g++ 12",
                 "Peak of a thread in GFLOP/s: fp32 100, fp16 100, bf16 100.",
                 "| type | D | mask | S = 1024 | S = 2048 |",
                 "| fp32 | 64 | no mask | 61 (61 %) | 62 (62 %) |",
                 "| fp16 | 64 | window of 256 | 33 (50 %) |  |",
                 "| bf16 | 64 | causal | 32 (50 %) |  |",
                 "| `n=8/1` |  | 0.95 | **0.94** |", "| `layout=BSH` |  | 0.95 | 0.95 |",
                 "| type | 2 threads, no mask |", "| fp32 | 1.93 |",
                 "| type | query rows: 1 |", "| fp32 | 12.3 (57 %) |",
                 "| `layout=BNSD dtype=fp32 n=8 d=64 q=7 kv=1024` | 21 (50 %) |",
                 "**Backward: plain shapes.** GFLOP/s and percent of the peak; 8 heads.",
                 "| `n=8/1` |  | 0.95 | **0.84** |", "| `layout=BSH` |  | 0.95 | **0.85** |",
                 "| type | heads | S | 2 threads, no mask |",
                 "| fp32 | 8 | 1024 | **1.83** |", "| fp32 | 1 | 8192 | **1.60** |",
                 "| type | threads | D = 64 | D = 128 |",
                 "| fp32 | 1 | 9.7 (41 %) | 8.9 (41 %) |", "| bf16 | 1 | 4.4 (41 %) |  |",
                 "| threads | bits: 1 048 576 | bits: 67 108 864 |", "| 1 | 4.2 | **0.9** |"]:
        assert line in lines, line
    assert lines.count("| fp32 | 64 | no mask | 61 (61 %) | 62 (62 %) |") == 2
    machine["results"] += cases[:1]
    (tmp_path / "results.json").write_text(json.dumps(machine))
    assert f"measured twice: {cases[0]['case']}" in script("table.py", tmp_path / "results.json", code=1).stderr


def test_every_picture_is_shown_and_links_lead_somewhere(run, page):
    shown = re.findall(r"!\[[^\]]+\]\(performance/([\w-]+\.svg)\)", page)
    assert sorted(shown) == sorted(pictures(run.ROOT / "docs/performance"))
    links = re.findall(r"\]\(([\w/.-]*)(?:#([\w-]+))?\)", page)
    assert len(links) > 5
    for file, place in links:
        text = (run.ROOT / "docs" / file).read_text(encoding="utf-8") if file else page
        titles = re.findall(r"^#+ (.*)", text, re.MULTILINE)
        assert not place or place in [re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-") for title in titles]
