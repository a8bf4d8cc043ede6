"""Each library shows exactly the C names of its exports file and otherwise only its own C++ namespace.

usage: check_exports.py [--nm <nm>] <library>=<exports file>=<namespace> ...

Exports file and namespace may be empty: then no C names, or no C++ names, are allowed. Also checked: SONAME = file
name, no symbol shown by two of the libraries, no GNU unique symbols (they would tie two copies of a library together),
and no weak C names (another library could replace them).
"""
import argparse
import pathlib
import re
import subprocess
import sys


def run(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def read_names(path):
    if not path:
        return set()
    lines = (line.split("#")[0].strip() for line in pathlib.Path(path).read_text().splitlines())
    return {line for line in lines if line}


def defined_symbols(nm, library):
    """Mangled name -> (type letter, demangled name)."""
    plain = run(nm, "-D", "--defined-only", "--format=posix", library).splitlines()
    pretty = run(nm, "-D", "--defined-only", "--format=posix", "-C", library).splitlines()
    symbols = {}
    for mangled_line, pretty_line in zip(plain, pretty, strict=True):
        name, kind = mangled_line.split()[:2]
        # The demangled name may hold blanks; the type letter, value and size follow it.
        demangled = re.match(r"(.*) [A-Za-z] [0-9a-f]*(?: [0-9a-f]*)?$", pretty_line.rstrip())
        symbols[name.split("@")[0]] = (kind, demangled.group(1) if demangled else name)
    return symbols


def in_namespace(demangled, namespace):
    if not namespace:
        return False
    return re.match(rf"(typeinfo for |typeinfo name for |vtable for )?{namespace}::", demangled) is not None


def check_library(nm, library, exports, namespace):
    problems = []
    symbols = defined_symbols(nm, library)
    expected = read_names(exports)
    c_names = {name for name in symbols if not name.startswith("_Z")}
    problems += [f"{name} is listed but not exported" for name in sorted(expected - c_names)]
    problems += [f"{name} is exported but not listed" for name in sorted(c_names - expected)]
    for name, (kind, demangled) in sorted(symbols.items()):
        if name.startswith("_Z") and not in_namespace(demangled, namespace):
            problems.append(f"{demangled} is exported but not in namespace {namespace or '(none)'}")
        if kind == "u":
            problems.append(f"{demangled} is a GNU unique symbol")
        if kind in "WVwv" and name in c_names:
            problems.append(f"{name} is weak")
    soname = re.search(r"SONAME.*\[(.*)\]", run("readelf", "-d", library))
    if not soname or soname.group(1) != pathlib.Path(library).name:
        problems.append(f"SONAME is {soname.group(1) if soname else 'missing'}: expected the file name")
    return symbols, problems


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nm", default="nm")
    parser.add_argument("libraries", nargs="+", metavar="library=exports=namespace")
    arguments = parser.parse_args()
    failed = False
    owner = {}
    for entry in arguments.libraries:
        library, exports, namespace = entry.split("=")
        name = pathlib.Path(library).name
        symbols, problems = check_library(arguments.nm, library, exports, namespace)
        problems += [f"{symbol} is also exported by {owner[symbol]}" for symbol in sorted(symbols) if symbol in owner]
        owner.update((symbol, name) for symbol in symbols)
        print(f"{name}: {len(symbols)} symbols" + "".join(f"\n  {problem}" for problem in problems))
        failed = failed or bool(problems)
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
