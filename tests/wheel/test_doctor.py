"""python -m ops_transformer doctor: on a set-up that works, and on each way to spoil it. Then what `import torch` says there."""

import re
import shutil
import sys

import pytest


@pytest.fixture
def spoiled(environment, tmp_path):
    """A copy of what the wheel installs, to be changed and put in front of the path."""
    for package in ("ops_transformer", "npu_fallback"):
        shutil.copytree(environment.site / package, tmp_path / package, ignore=shutil.ignore_patterns("__pycache__"))
    return tmp_path


@pytest.fixture
def library(spoiled):
    return lambda name: spoiled / "ops_transformer/home/lib64" / name


def report(done):
    """{check: (mark, text, advice)} of the table; each failure has an advice and nothing comes out beside the table."""
    assert done.stderr == ""
    rows, last = {}, None
    *table, verdict = done.stdout.splitlines()
    for line in table:
        mark, name, text = line[:5].strip(), line[6:24].strip(), line[25:]
        if mark:
            rows[name] = last = [mark, text, ""]
        else:
            last[2] = re.fullmatch(r"-> (.+)", text)[1]
    assert all(bool(advice) == (mark == "FAIL") for mark, _, advice in rows.values())
    assert verdict.startswith("torch-npu cannot run here" if done.returncode else "torch-npu can run here")
    return rows


def failures(environment, spoiled=None, **variables):
    """{check: (text, advice)} of what fails; the start, which has nothing to add then, is not tried."""
    if spoiled:
        variables["PYTHONPATH"] = str(spoiled)
    rows = report(environment("-m", "ops_transformer", "doctor", code=1, **variables))
    assert rows["start"][0] == "-"
    return {name: (text, advice) for name, (mark, text, advice) in rows.items() if mark == "FAIL"}


def test_good(environment):
    rows = report(environment("-m", "ops_transformer", "doctor"))
    assert {mark for mark, _, _ in rows.values()} == {"ok"} and len(rows) == 14
    assert rows["start"][1] == "1 device(s) Ascend910B2, right results"
    symbols, files = map(int, re.findall(r"\d+", rows["linked functions"][1]))
    # Fewer would mean that the checker no longer sees what the wheel needs: 84 functions and 6 files were counted by hand.
    assert symbols >= 84 and files >= 6


def test_good_in_the_installed_tree(run, prefix, tmp_path):
    done = run.sourced(prefix, f'"{sys.executable}" -m ops_transformer doctor', cwd=tmp_path)
    assert {mark for mark, _, _ in report(done).values()} == {"ok"}


def preparation(environment, spoiled, **variables):
    """How the step before the import of torch_npu ends."""
    program = "from ops_transformer import startup\nwith startup.libraries():\n    pass"
    last = environment("-c", program, code=1, PYTHONPATH=str(spoiled), **variables).stderr.splitlines()[-1]
    return last.removeprefix("ImportError: ")


@pytest.mark.parametrize("name", ["libascendcl.so", "libnnopbase.so", "libopapi.so", "libhccl.so", "libdcmi.so"])
def test_missing_library(environment, spoiled, library, name):
    library(name).unlink()
    text, advice = failures(environment, spoiled)["libraries"]
    assert text == f"{library(name)} is missing" and "install fusion_attention again" in advice
    assert preparation(environment, spoiled) == (
        f"torch_npu needs {name}, which is neither {library(name)} nor in a folder of LD_LIBRARY_PATH; "
        "`python -m ops_transformer doctor` says what to do")


def test_import_of_torch_with_a_missing_library(environment, spoiled, library):
    library("libhccl.so").unlink()
    text = environment("-c", "import torch", code=1, PYTHONPATH=str(spoiled)).stderr
    assert "\nImportError: torch_npu needs libhccl.so, which is neither" in text and "cannot open shared object" not in text


def test_library_that_is_none(environment, spoiled, library):
    library("libopapi.so").write_text("")
    found = failures(environment, spoiled)
    assert f"{library('libopapi.so')} is not a shared library for this machine" in found["linked functions"][0]
    assert preparation(environment, spoiled).startswith("torch_npu needs libopapi.so, which cannot be loaded: ")


def test_library_of_somebody_else_is_loaded_already(run, environment, tmp_path):
    other = tmp_path / "libascendcl.so"
    run("gcc", "-shared", "-x", "c", "/dev/null", "-Wl,-soname,libascendcl.so", "-o", other)
    program = ("import ctypes, sys\nctypes.CDLL(sys.argv[1])\nfrom ops_transformer import startup\n"
               "with startup.libraries():\n    pass")
    text = environment("-c", program, other, code=1).stderr.splitlines()[-1]
    assert "needs libnnopbase.so, which cannot be loaded beside the libascendcl.so that this process has already: " in text


def test_library_in_another_folder(environment, spoiled, library):
    """As when the components are installed one by one into several: LD_LIBRARY_PATH leads there."""
    folder = spoiled / "elsewhere"
    folder.mkdir()
    library("libhccl.so").rename(folder / "libhccl.so")
    program = ("from ops_transformer import startup\nwith startup.libraries():\n"
               "    print('elsewhere/libhccl.so' in open('/proc/self/maps').read())")
    done = environment("-c", program, PYTHONPATH=str(spoiled), LD_LIBRARY_PATH=str(folder))
    assert done.stdout == "True\n"


def test_all_libraries_missing(environment, spoiled, library):
    shutil.rmtree(library("libopapi.so").parent)
    found = failures(environment, spoiled)
    assert "and 13 more" in found["libraries"][0]
    assert "more)" in found["linked functions"][0] and "more)" in found["other functions"][0]


def rename(path, old, new):
    """Another function of the library's, by a change of its name where the library keeps it."""
    data = path.read_bytes()
    assert len(old) == len(new) and data.count(b"\0" + old + b"\0") >= 1
    path.write_bytes(data.replace(b"\0" + old + b"\0", b"\0" + new + b"\0"))


def test_missing_function_that_is_linked(environment, spoiled, library):
    rename(library("libascendcl.so"), b"aclrtMallocHost", b"aclrtMallocGone")
    assert failures(environment, spoiled)["linked functions"][0] == \
        "libtensorpipe.so needs aclrtMallocHost; libtorch_npu.so needs aclrtMallocHost"


def test_missing_function_that_is_looked_up(environment, spoiled, library):
    rename(library("libopapi.so"), b"aclnnFlashAttentionScore", b"aclnnFlashAttentionGone_")
    found = failures(environment, spoiled)
    assert list(found) == ["other functions"]
    assert found["other functions"][0] == "libopapi.so has no aclnnFlashAttentionScore"


def test_library_of_somebody_else(environment, spoiled, library):
    """The name is right, and nothing is in it."""
    shutil.copy(library("libhccl.so"), library("libascendcl.so"))
    found = failures(environment, spoiled)
    assert re.fullmatch(r"\S+ needs acl\w+; \S+ needs acl\w+ \(and \d+ more\)", found["linked functions"][0])
    # Asked by the handle of libacl_op_compiler.so, which leads to libascendcl.so.
    assert "aclrtSetDeviceSatMode" in found["other functions"][0]


def test_missing_folder(environment, spoiled):
    shutil.rmtree(spoiled / "ops_transformer/home/compiler")
    assert "compiler missing in" in failures(environment, spoiled)["folders"][0]


def test_missing_kernels(environment, spoiled):
    (spoiled / "npu_fallback/libnpu_fallback.so").unlink()
    assert "libnpu_fallback.so is missing" in failures(environment, spoiled)["kernels"][0]


@pytest.mark.parametrize("package", ["torch", "torch_npu"])
def test_wrong_version(environment, tmp_path, package):
    info = tmp_path / f"{package}-2.6.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 2.6.0\n")
    name = package.replace("_", "-")
    assert failures(environment, tmp_path) == {name: ("2.6.0, but the libraries are for 2.13.0", f"install {name}==2.13.0")}


def test_nothing_installed(run, environment, tmp_path):
    """Neither torch nor the .pth file: the packages alone, in an interpreter that has nothing else."""
    done = run(sys._base_executable, "-m", "ops_transformer", "doctor", cwd=tmp_path, code=1,
               env={"PYTHONPATH": str(environment.site)})
    rows = report(done)
    assert rows["torch"][1] == rows["torch-npu"][1] == "not installed"
    assert rows["start-up hook"][0] == rows["linked functions"][0] == "FAIL" and rows["libraries"][0] == "ok"


@pytest.fixture
def other(tmp_path, environment):
    """Another toolkit: of its libraries only the name matters."""
    folder = tmp_path / "toolkit"
    (folder / "lib64").mkdir(parents=True)
    shutil.copy(environment.site / "ops_transformer/home/lib64/libhccl.so", folder / "lib64/libascendcl.so")
    return folder


def test_another_toolkit_first(environment, other):
    ours = environment.site / "ops_transformer/home/lib64"
    found = failures(environment, LD_LIBRARY_PATH=f"{other}/lib64:{ours}")
    assert list(found) == ["LD_LIBRARY_PATH"]
    text, advice = found["LD_LIBRARY_PATH"]
    assert text == f"{other}/lib64 comes first with another libascendcl.so"
    assert f"source {ours.parent}/set_env.sh" in advice


def test_another_toolkit_behind_ours(environment, other):
    """The script of the wheel puts it there. (The start is kept from being tried by another variable.)"""
    script = 'source "$(python -m ops_transformer env)"; python -m ops_transformer doctor || [ $? = 1 ]'
    done = environment.source(script, LD_LIBRARY_PATH=f"{other}/lib64", TASK_QUEUE_ENABLE="7")
    ours = environment.site / "ops_transformer/home/lib64"
    assert f"ok    LD_LIBRARY_PATH    {ours} comes first" in done.stdout.splitlines()


def test_another_toolkit_chosen(environment, other):
    found = failures(environment, ASCEND_HOME_PATH=str(other))
    assert list(found) == ["ASCEND_HOME_PATH", "ASCEND_OPP_PATH"]
    assert f"{other}, another installation than" in found["ASCEND_HOME_PATH"][0]


@pytest.mark.parametrize("variable, check", [("TASK_QUEUE_ENABLE", "TASK_QUEUE_ENABLE"), ("ASCEND_CPU_FALLBACK", "kernels")])
def test_wrong_value_of_a_variable(environment, variable, check):
    text, advice = failures(environment, **{variable: "7"})[check]
    assert "'7'" in text and advice == f"unset {variable}"


def test_start_that_fails(environment):
    rows = report(environment("-m", "ops_transformer", "doctor", code=1, ASCEND_RT_VISIBLE_DEVICES="9"))
    assert [name for name, (mark, _, _) in rows.items() if mark == "FAIL"] == ["start"]
    assert "does ASCEND_RT_VISIBLE_DEVICES leave a device?" in rows["start"][1]


def test_reader_agrees_with_nm(run, environment):
    program = ("import sys; from ops_transformer.doctor import elf; library = elf.read(sys.argv[1]);"
               "print(library.soname, *library.needed); print(*sorted(library.defined)); print(*sorted(library.undefined))")
    for path in sorted((environment.site / "ops_transformer/home/lib64").glob("*.so")):
        linked, defined, undefined = environment("-c", program, path).stdout.splitlines()

        def names(kind):
            lines = (line.split() for line in run("nm", "-D", kind, "--format=posix", path).stdout.splitlines())
            return sorted(name.split("@")[0] for name, letter, *_ in lines if letter not in "wv")  # weak and undefined

        assert defined.split() == names("--defined-only") and undefined.split() == names("--undefined-only")
        dynamic = run("readelf", "-dW", path).stdout
        assert linked.split() == re.findall(r"SONAME.*\[(.*)\]", dynamic) + re.findall(r"NEEDED.*\[(.*)\]", dynamic)


def test_help_and_wrong_command(environment):
    assert "doctor" in environment("-m", "ops_transformer", "--help").stdout
    assert "invalid choice: 'docter'" in environment("-m", "ops_transformer", "docter", code=2).stderr
