"""python -m ops_transformer info: what it says is what the operators do."""
import ctypes
import importlib.metadata
import json
import os
import re

import pytest

# The names of processor flags that the tables are compiled for, as the compiler spells them: -mavx2 -mfma -mf16c ...
NEEDS = {
    "portable": set(),
    "avx2": {"avx", "avx2", "fma", "f16c"},
    "avx512": {"avx", "avx2", "fma", "f16c", "avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"},
}
NEEDS["avx512_bf16"] = NEEDS["avx512"] | {"avx512_bf16"}


def flags():
    with open("/proc/cpuinfo") as file:
        return next((set(line.split(":")[1].split()) for line in file if line.startswith("flags")), set())


@pytest.fixture
def info(run_tool):
    def ask(code=0, **variables):
        return json.loads(run_tool("info", "--json", code=code, **{"ASCEND_CPU_ISA": "", **variables}).stdout)

    return ask


def test_names_the_kernels_of_this_processor(info):
    """What /proc/cpuinfo promises, the library can run, and the best comes first."""
    kernels = info()["kernels"]
    here = flags()
    for table in kernels["tables"]:
        assert set(table["needs"]) == NEEDS[table["name"]]
        assert table["runs"] == (NEEDS[table["name"]] <= here), table
        assert table["runs"] == (table["why_not"] == "")
        for flag in NEEDS[table["name"]] - here:
            assert flag in table["why_not"]
    runs = [table["name"] for table in kernels["tables"] if table["runs"]]
    assert kernels["chosen"] == runs[0] and runs[-1] == "portable"
    assert [table["name"] for table in kernels["tables"] if table["chosen"]] == [runs[0]]
    assert "ASCEND_CPU_ISA is not set" in kernels["why"]


def test_follows_the_variable(info):
    kernels = info(ASCEND_CPU_ISA="portable")["kernels"]
    assert kernels["chosen"] == "portable" and kernels["why"] == "portable, because ASCEND_CPU_ISA=portable"


def test_kernels_that_are_not_there(info, run_tool):
    """The text is the one that a call fails with, and the exit code says that calls would fail."""
    kernels = info(code=1, ASCEND_CPU_ISA="neon")["kernels"]
    assert kernels["chosen"] is None and 'ASCEND_CPU_ISA asks for "neon"' in kernels["why"]
    assert "neon" in run_tool("info", code=1, ASCEND_CPU_ISA="neon").stdout


def test_threads(info):
    allowed = len(os.sched_getaffinity(0))
    usual = info(ASCEND_CPU_THREADS="")["threads"]
    assert 1 <= usual["operators"] <= allowed
    chosen = info(ASCEND_CPU_THREADS="3", OMP_NUM_THREADS="1")["threads"]
    assert (chosen["operators"], chosen["why"]) == (3, "ASCEND_CPU_THREADS=3")
    assert chosen["flash_attention"] == 1 and "OMP_NUM_THREADS=1" in chosen["why_flash_attention"]
    limited = info(ASCEND_CPU_THREADS="1", OMP_NUM_THREADS="2")["threads"]
    assert limited["flash_attention"] == 1 and limited["why_flash_attention"].startswith("ASCEND_CPU_THREADS=1, less than")
    wrong = info(ASCEND_CPU_THREADS="many")["threads"]
    assert wrong["operators"] == usual["operators"] and "ASCEND_CPU_THREADS=many is ignored" in wrong["why"]


def test_threads_of_the_affinity_mask(run_python):
    """The operators count the processors that a process may use, and info says that these are the reason."""
    done = run_python("""
        import os, subprocess, sys
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
        os.environ.pop("ASCEND_CPU_THREADS", None)
        sys.exit(subprocess.run([sys.executable, "-m", "ops_transformer", "info", "--json"]).returncode)
        """)
    threads = json.loads(done.stdout)["threads"]
    assert threads["operators"] == 1 and "affinity mask" in threads["why"]


def test_versions_and_places(info):
    report = info()
    assert report["versions"]["torch"] == importlib.metadata.version("torch")
    version = report["versions"]["fusion_attention"]
    libraries = report["places"]["libraries"]
    with open(os.path.join(libraries, "..", "version.info")) as file:
        assert f"FusionAttention={version}\n" in file.readlines()
    ctypes.CDLL(os.path.join(libraries, "libopapi.so")).aclnnFlashAttentionScore
    assert "ASCEND_HOME_PATH" not in report["places"]


def test_another_installation_is_named(info, tmp_path):
    assert str(tmp_path) in info(ASCEND_HOME_PATH=str(tmp_path))["places"]["ASCEND_HOME_PATH"]


def test_table_has_what_the_object_has(info, run_tool):
    report, text = info(), run_tool("info", ASCEND_CPU_ISA="").stdout
    assert text.startswith(f"Processor: {report['processor']}\nKernels:   {report['kernels']['why']}\n")
    for table in report["kernels"]["tables"]:
        (found,) = re.findall(rf"^([* ]) +{table['name']} +(yes|no) ", text, re.MULTILINE)
        assert found == ("*" if table["chosen"] else " ", "yes" if table["runs"] else "no")
    assert all(place in text for place in report["places"].values())
