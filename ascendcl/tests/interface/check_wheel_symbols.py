"""What the libraries of the torch_npu wheel need from the vendor's stack, we have: symbols and file names.

usage: check_wheel_symbols.py <our library folder>
"""
import pathlib
import re
import subprocess
import sys

from wheel import torch_npu_dir

# How the names of the vendor's stack begin: AscendCL, the runtime below it, profiler, collectives, graph engine.
VENDOR = re.compile(r"^(acl|rt[A-Z]|Msprof|mspti|mstx|dcmi|Hccl|hccl|_ZNK?2ge)")
# Libraries that the wheel needs: its own, torch's and the system's are none of ours.
OTHERS = re.compile(r"^(libtorch|libc10|libop_plugin|libtensorpipe|lib(c|m|dl|rt|pthread|gcc_s|stdc\+\+)\.so|ld-linux)")
# Loaded on demand only, and meant to stay without their counterparts: the operators of another vendor package, and the
# bridge to the vendor's graph compiler.
ON_DEMAND = ("lib/libop_plugin_atb.so", "dynamo/torchair/")


def run(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def symbols(library, kind):
    names = (line.split()[0] for line in run("nm", "-D", kind, "--format=posix", library).splitlines())
    return {name.split("@")[0] for name in names}


def main():
    ours = pathlib.Path(sys.argv[1])
    provided = set()
    for library in ours.glob("*.so"):
        provided |= symbols(library, "--defined-only")
    wheel = torch_npu_dir()
    problems = []
    libraries = [library for library in sorted(wheel.rglob("*.so*"))
                 if not library.relative_to(wheel).as_posix().startswith(ON_DEMAND)]
    needed_symbols, needed_files = set(), set()
    for library in libraries:
        undefined = {name for name in symbols(library, "--undefined-only") if VENDOR.match(name)}
        needed_symbols |= undefined
        problems += [f"{library.name} needs {name}" for name in sorted(undefined - provided)]
        for name in re.findall(r"NEEDED.*\[(.*)\]", run("readelf", "-d", library)):
            if not OTHERS.match(name) and not any(name == other.name for other in libraries):
                needed_files.add(name)
                if not (ours / name).exists():
                    problems.append(f"{library.name} needs the file {name}")
    # An empty set would mean that the patterns above no longer fit the wheel.
    if len(needed_symbols) < 50 or "libascendcl.so" not in needed_files:
        problems.append(f"the wheel seems to need only {sorted(needed_symbols)} and {sorted(needed_files)}")
    for problem in problems:
        print(" ", problem)
    print(f"{len(libraries)} libraries need {len(needed_symbols)} symbols and {sorted(needed_files)}: "
          f"{len(problems)} problems")
    sys.exit(1 if problems else 0)


if __name__ == "__main__":
    main()
