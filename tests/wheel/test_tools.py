"""The command line tools of the wheel: its program is there, may be executed and finds the wheel's libraries."""
import json
import re
import zipfile


def test_verify(environment):
    assert environment("-m", "ops_transformer", "verify", "--random", "4").stdout.endswith("4 of 4 cases are within their bounds\n")
    assert environment("-m", "ops_transformer", "verify", "--random", "4", "--bound-scale", "0", code=1).stderr == ""


def test_verify_takes_no_other_libraries(environment, tmp_path):
    """Those that set_env.sh of another installation has put in front; here they are none at all."""
    for name in ("libopapi.so", "libnnopbase.so", "libascendcl.so"):
        (tmp_path / name).write_text("not a library")
    environment("-m", "ops_transformer", "verify", "layout=BNSD q=3 kv=5 d=8", LD_LIBRARY_PATH=str(tmp_path))


def test_info(environment):
    report = json.loads(environment("-m", "ops_transformer", "info", "--json").stdout)
    assert report["places"]["libraries"] == str(environment.site / "ops_transformer/home/lib64")
    assert report["kernels"]["chosen"]


def test_extra(run, wheel):
    """Packages for tables and pictures are an extra, and the tests run with them."""
    (metadata,) = [name for name in zipfile.ZipFile(wheel).namelist() if name.endswith(".dist-info/METADATA")]
    text = zipfile.ZipFile(wheel).read(metadata).decode()
    wanted = re.findall(r'^Requires-Dist: (\S+) ; extra == "tools"$', text, re.MULTILINE)
    assert wanted == ["rich", "matplotlib"] and "Provides-Extra: tools\n" in text
    pinned = [line.split("==")[0] for line in (run.ROOT / "ci/constraints.txt").read_text().splitlines()]
    assert set(wanted) <= set(pinned)
