"""The wheel: what is in it, and that the unmodified torch-npu runs on it where nothing else of this project is."""

import base64
import csv
import hashlib
import importlib.metadata
import io
import re
import stat
import zipfile

PROGRAM = """
import os
q, k, v = (torch.full((1, 8, 33, 64), value, device="npu") for value in (1.0, 0.5, 3.0))
out = torch.ops.npu.npu_fusion_attention(q, k, v, 8, "BNSD", scale=0.125)[0] + 1
print(round(out.mean().item(), 5))
for name in ("ASCEND_HOME_PATH", "ASCEND_OPP_PATH", "TASK_QUEUE_ENABLE"):
    print(os.environ[name])
"""


def digest(data):
    return "sha256=" + base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()


def test_name_has_version_and_platform(run, wheel):
    version = re.search(r"FUSION_VERSION (\S+)\)", (run.ROOT / "cmake/FusionAttention.cmake").read_text())[1]
    assert re.fullmatch(rf"fusion_attention-{re.escape(version)}-py3-none-linux_\w+\.whl", wheel.name)


def test_every_library_once_and_no_link(wheel, run):
    entries = zipfile.ZipFile(wheel).infolist()
    assert not [entry.filename for entry in entries if stat.S_ISLNK(entry.external_attr >> 16)]
    names = [entry.filename.split("/")[-1] for entry in entries if entry.filename.endswith(".so")]
    assert len(set(names)) == len(names) and {"libascendcl.so", "libnnopbase.so", "libopapi.so"} <= set(names)
    assert not set(run.OPERATOR_LIBRARIES[1:]) & set(names)
    contents = [zipfile.ZipFile(wheel).read(entry) for entry in entries if entry.filename.endswith(".so")]
    assert len(set(contents)) == len(contents)


def test_record(wheel):
    archive = zipfile.ZipFile(wheel)
    (record,) = [name for name in archive.namelist() if name.endswith(".dist-info/RECORD")]
    rows = {name: (hashed, size) for name, hashed, size in csv.reader(io.StringIO(archive.read(record).decode()))}
    assert rows.pop(record) == ("", "")
    files = {name: archive.read(name) for name in archive.namelist() if name != record and not name.endswith("/")}
    assert rows == {name: (digest(data), str(len(data))) for name, data in files.items()}


def test_no_place_of_the_build_machine(run, wheel, prefix):
    archive = zipfile.ZipFile(wheel)
    for name in archive.namelist():
        for place in (run.ROOT, run.WORK, prefix):
            assert str(place).encode() + b"/" not in archive.read(name), f"{name} mentions {place}"


def test_versions_are_the_tested_ones(run, wheel):
    """What the checker wants and the metadata offers is what the tests ran with."""
    pinned = set((run.ROOT / "ci/constraints.txt").read_text().split())
    (metadata,) = [name for name in zipfile.ZipFile(wheel).namelist() if name.endswith(".dist-info/METADATA")]
    wanted = re.findall(r'^Requires-Dist: (\S+) ; extra == "npu"$', zipfile.ZipFile(wheel).read(metadata).decode(), re.MULTILINE)
    assert len(wanted) == 2 and set(wanted) <= pinned


def changed_files(distribution):
    """Files of an installed wheel that are not what its RECORD says."""
    files = [file for file in importlib.metadata.files(distribution) if file.hash]
    assert len(files) > 1000
    return [str(file) for file in files if digest(file.locate().read_bytes()) != f"{file.hash.mode}={file.hash.value}"]


def test_runs_without_set_env(environment):
    """And after it the files of torch-npu are the vendor's still."""
    done = environment("-c", "import torch" + PROGRAM)
    home = environment.site / "ops_transformer/home"
    assert done.stdout.splitlines() == ["4.0", str(home), str(home / "opp"), "0"]
    # torch-npu's own word about its allocations, whatever it runs on
    assert [line for line in done.stderr.splitlines() if "32 padding size" not in line] == []
    assert changed_files("torch-npu") == []


def test_child_process(environment):
    """A child inherits the variables and has to load the libraries itself. A mode of the task queue that was chosen is kept."""
    home = environment.site / "ops_transformer/home"
    done = environment("-c", "import torch_npu, torch" + PROGRAM, ASCEND_HOME_PATH=str(home), TASK_QUEUE_ENABLE="2")
    assert done.stdout.splitlines() == ["4.0", str(home), str(home / "opp"), "2"]


def test_libraries_that_are_loaded_already_stay_the_only_ones(environment, prefix):
    """As when a program that uses them has Python inside."""
    program = ("import ctypes, re, sys\nctypes.CDLL(sys.argv[1])\nfrom ops_transformer import startup\n"
               "with startup.libraries():\n    print(*set(re.findall('/.*/libascendcl.so', open('/proc/self/maps').read())))")
    library = prefix / "lib64/libascendcl.so"
    assert environment("-c", program, library).stdout.strip() == str(library)


def test_another_copy_of_ours_is_ours(environment, prefix, tmp_path):
    """The CPU kernels go with every copy of our libraries, and with no other ones."""
    program = "from ops_transformer import startup\nwith startup.libraries() as ours:\n    print(ours)"
    for chosen, expected in [("", "True"), (prefix, "True"), (tmp_path, "False")]:
        assert environment("-c", program, ASCEND_HOME_PATH=str(chosen)).stdout.strip() == expected


def test_another_toolkit_that_was_chosen_is_left_alone(environment, tmp_path):
    """On a machine with an NPU its own libraries may be wanted; then neither ours nor the CPU kernels may come in."""
    program = ("import os, sys\ntry:\n    import torch_npu\nexcept ImportError as error:\n    print(error)\n"
               "print('npu_fallback.so' in open('/proc/self/maps').read(), 'libascendcl' in open('/proc/self/maps').read())")
    done = environment("-c", program, ASCEND_HOME_PATH=str(tmp_path))
    sentence, loaded = done.stdout.splitlines()
    assert loaded == "False False"
    assert sentence.startswith(f"torch_npu needs libhccl.so, which was not found (ASCEND_HOME_PATH is {tmp_path})")
    assert "`python -m ops_transformer doctor` says what to do" in sentence


def test_script_for_shells(environment):
    """set_env.sh of the wheel: other programs find the libraries by their names."""
    done = environment.source('source "$(python -m ops_transformer env)";'
                              'printf "%s\\n" "$LD_LIBRARY_PATH" "${PYTHONPATH-unset}";'
                              "python -S -c 'import ctypes; ctypes.CDLL(\"libopapi.so\").aclnnFlashAttentionScore'")
    assert done.stdout.splitlines() == [f"{environment.site}/ops_transformer/home/lib64", "unset"]


def test_cost_when_python_starts(environment):
    """Less than 2 ms: a start takes ten times that. Time of the processor, without the turns of other programs; the best of
    ten, because they also take its caches away."""
    program = ("import os, site, sys, time; sys.path.append(sys.argv[1]); line = open(sys.argv[1] + '/npu_fallback.pth').read()\n"
               "begin = time.process_time(); exec(line); print(time.process_time() - begin, 'ctypes' in sys.modules)")
    done = [environment("-S", "-c", program, environment.site).stdout.split() for _ in range(10)]
    best = min(float(seconds) for seconds, _ in done)
    print(f"{best * 1e3:.2f} ms")
    assert best < 2e-3 and {loaded for _, loaded in done} == {"False"}
