"""The installed tree holds what programs, torch-npu and the loader look for, and nothing that ties it to a machine."""

import ctypes
import json
import re
import sys

import pytest

HEADERS = [
    "acl/acl.h", "acl/acl_base.h", "acl/acl_base_mdl.h", "acl/acl_base_rt.h", "acl/acl_mdl.h", "acl/acl_op.h",
    "acl/acl_op_compiler.h", "acl/acl_rt.h", "acl/acl_rt_allocator.h", "acl/error_codes/ge_error_codes.h",
    "acl/error_codes/rt_error_codes.h", "aclnn/acl_meta.h", "aclnn/aclnn_base.h",
    "aclnnop/aclnn_dropout_gen_mask.h", "aclnnop/aclnn_flash_attention_score.h",
    "aclnnop/aclnn_flash_attention_score_grad.h", "aclnnop/aclnn_ring_attention_update.h", "op_proto/attention_proto.h",
    "fusion_attention/kernel_info.h", "opbase/op_base.h",
]

# Opened or linked by torch-npu beside the operators.
RUNTIME_LIBRARIES = [
    "libascendcl.so", "libnnopbase.so", "libacl_op_compiler.so", "libhccl.so", "libge_runner.so", "libgraph.so",
    "libacl_tdt_channel.so", "libmspti.so", "libmsprofiler.so", "libms_tools_ext.so", "libascend_hal.so", "libdcmi.so",
    "libascend_ml.so",
]


def real_libraries(prefix):
    return sorted(path for path in (prefix / "lib64").glob("*.so") if not path.is_symlink())


def dynamic_section(run, library):
    entries = {}
    for tag, value in re.findall(r"\((\w+)\)\s+.*?\[(.*)\]", run("readelf", "-dW", library).stdout):
        entries.setdefault(tag, []).append(value)
    return entries


# Prototypes need the macros of whoever reads them.
@pytest.mark.parametrize("header", [header for header in HEADERS if not header.startswith("op_proto/")])
def test_header_compiles_alone(prefix, run, tmp_path, header):
    """acl/ and fusion_attention/ are C99 and C++11, aclnn and aclnnop are C++11, the internal headers C++20. No warning in any."""
    c_and_cpp = [("c", "c99"), ("c++", "c++11")]
    languages = {"acl": c_and_cpp, "fusion_attention": c_and_cpp, "opbase": [("c++", "c++20")]}
    source = tmp_path / "header"
    source.write_text(f'#include "{header}"\nextern int something;\n')
    for language, standard in languages.get(header.split("/")[0], [("c++", "c++11")]):
        run("g++", "-x", language, f"-std={standard}", "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-fsyntax-only",
            f"-I{prefix}/include", f"-I{prefix}/include/aclnn", source)


@pytest.mark.parametrize("folder", ["include", "lib64", "runtime", "compiler", "opp"])
def test_folder_exists(prefix, folder):
    assert (prefix / folder).is_dir()


def test_version_info(prefix):
    """Scripts read the toolkit's version from this file; ours stands on a line of its own."""
    lines = (prefix / "version.info").read_text().splitlines()
    assert lines[0] == "Version=8.5.0"
    assert re.fullmatch(r"FusionAttention=\d+\.\d+\.\d+", lines[1])


def test_operator_names_are_links_to_one_file(prefix, run):
    for name in run.OPERATOR_LIBRARIES[1:]:
        link = prefix / "lib64" / name
        assert link.is_symlink() and str(link.readlink()) == "libopapi.so", name


def test_links_stay_inside(prefix):
    for link in (path for path in prefix.rglob("*") if path.is_symlink()):
        assert "/" not in str(link.readlink()) and link.exists(), link


def test_soname_and_run_path(prefix, run):
    libraries = real_libraries(prefix)
    assert len(libraries) >= 4
    for library in libraries:
        section = dynamic_section(run, library)
        assert section["SONAME"] == [library.name]
        assert section.get("RUNPATH", ["$ORIGIN"]) == ["$ORIGIN"], library.name
        assert "RPATH" not in section, library.name


def test_needed_libraries(prefix, run):
    """Our own, and what every C++ program has anyway; nothing else has to be installed to run."""
    system = re.compile(r"lib(c|m|stdc\+\+|gcc_s|pthread|dl|rt)\.so\.\d+|ld-linux.*")
    needed = {library.name: dynamic_section(run, library).get("NEEDED", []) for library in real_libraries(prefix)}
    for name, others in needed.items():
        for other in others:
            assert other in needed or system.fullmatch(other), f"{name} needs {other}"
    assert "libnnopbase.so" in needed["libopapi.so"]
    assert "libascendcl.so" in needed["libnnopbase.so"]
    assert "libascendcl.so" in needed["libacl_op_compiler.so"]


def test_no_symbol_has_two_homes(prefix, run):
    homes = {}
    for library in real_libraries(prefix):
        for line in run("nm", "-D", "--defined-only", library).stdout.splitlines():
            symbol = line.split()[-1]
            assert symbol not in homes, f"{symbol} is in {homes[symbol]} and {library.name}"
            homes[symbol] = library.name
    assert homes["aclnnFlashAttentionVarLenScore"] == "libopapi.so"


def test_no_place_of_the_build_machine(prefix, run):
    for path in prefix.rglob("*"):
        if path.is_file() and path.suffix != ".pyc":  # those Python adds where it runs
            content = path.read_bytes()
            for place in (run.ROOT, run.WORK):
                assert str(place).encode() + b"/" not in content, f"{path} mentions {place}"


def test_every_name_opens_the_same_library(prefix, run):
    """By bare name, as torch-npu does: one handle means one copy of the operators in the process."""
    program = ("import ctypes, json, sys;"
               "print(json.dumps([ctypes.CDLL(name)._handle for name in sys.argv[1:]]))")
    done = run.sourced(prefix, f'"{sys.executable}" -c \'{program}\' {" ".join(run.OPERATOR_LIBRARIES)}')
    handles = json.loads(done.stdout)
    assert len(handles) == len(run.OPERATOR_LIBRARIES) and len(set(handles)) == 1


def test_closing_the_runtime_leaves_running_threads_alone(run, prefix):
    """What a thread keeps (here an error text) is freed by the library's code when the thread ends, also after dlclose."""
    program = """
import _ctypes, ctypes, sys, threading
library = ctypes.CDLL(sys.argv[1])
used, closed = threading.Event(), threading.Event()
def use():
    assert library.aclrtFree(None) == 100000
    used.set()
    closed.wait()
thread = threading.Thread(target=use)
thread.start()
used.wait()
_ctypes.dlclose(library._handle)
closed.set()
thread.join()
"""
    run(sys.executable, "-c", program, prefix / "lib64" / "libascendcl.so")


@pytest.mark.parametrize("name", RUNTIME_LIBRARIES)
def test_runtime_library_opens(prefix, name):
    assert ctypes.CDLL(str(prefix / "lib64" / name))._handle


def test_neighbours_are_found_without_environment(prefix, run):
    """The operators alone bring the runtime: RUNPATH is enough, and the meta functions are found on their handle."""
    program = ("import ctypes, sys; library = ctypes.CDLL(sys.argv[1]);"
               "library.aclnnFlashAttentionScore, library.aclCreateTensor, library.aclDestroyTensor")
    run(sys.executable, "-c", program, prefix / "lib64/libopapi_transformer.so")
