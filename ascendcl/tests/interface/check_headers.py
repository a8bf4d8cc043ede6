"""Our acl headers say the same as the vendor's: values, sizes, offsets and prototypes, compared through the compiler.

usage: check_headers.py <C++ compiler> <our include folder>

One program that prints all of them is made from the names in our headers and compiled against each of the two include
folders; the outputs must be equal. header_differences.txt lists, with a reason, the names for which the wheel has no
counterpart or another value; a name that is listed without need fails too.
"""
import pathlib
import subprocess
import sys
import tempfile

from header_names import names_of
from wheel import torch_npu_dir

INCLUDES = """#include <cstddef>
#include <cstdio>
#include <typeinfo>
#include "acl/acl.h"
#include "acl/acl_op_compiler.h"
"""


def read_differences():
    entries = {}
    for line in pathlib.Path(__file__).with_name("header_differences.txt").read_text().splitlines():
        if line and not line.startswith("#"):
            name, reason = line.split(maxsplit=1)
            entries[name] = reason
    return entries


def statements(names):
    """(name, C++ statement that prints what the name means)."""
    for value in names.values:
        yield value, f'std::printf("{value} %lld\\n", static_cast<long long>({value}));'
    for name in names.types:
        yield name, f'std::printf("{name} %zu %s\\n", sizeof({name}), typeid({name}).name());'
    for name, member in names.members:
        yield name, (f'std::printf("{name}.{member} %zu %zu %s\\n", offsetof({name}, {member}), '
                     f"sizeof({name}::{member}), typeid(decltype({name}::{member})).name());")
    for name in names.functions:
        yield name, f'std::printf("{name} %s\\n", typeid(decltype({name})).name());'


def compile_and_run(compiler, include, lines, folder):
    source = folder / "print_headers.cpp"
    binary = folder / "print_headers"
    source.write_text(INCLUDES + "int main() {\n" + "\n".join(lines) + "\n}\n")
    built = subprocess.run([compiler, "-std=c++17", "-O0", "-w", "-I", include, source, "-o", binary],
                           capture_output=True, text=True)
    if built.returncode != 0:
        return None, built.stderr
    return subprocess.run([binary], check=True, capture_output=True, text=True).stdout.splitlines(), ""


def main():
    compiler, ours = sys.argv[1:]
    theirs = torch_npu_dir() / "include"
    differences = read_differences()
    all_statements = list(statements(names_of(ours)))
    known = {name for name, _ in all_statements}
    problems = [f"header_differences.txt lists {name}, which our headers do not have" for name in differences
                if name not in known]
    with tempfile.TemporaryDirectory() as temporary:
        folder = pathlib.Path(temporary)
        lines = [line for name, line in all_statements if name not in differences]
        outputs = []
        for include in (ours, theirs):
            output, errors = compile_and_run(compiler, include, lines, folder)
            if output is None:
                sys.exit(f"the program does not compile against {include}:\n{errors[:8000]}")
            outputs.append(output)
        for our_line, their_line in zip(*outputs, strict=True):
            if our_line != their_line:
                problems.append(f"ours:  {our_line}\n  wheel: {their_line}")
        for name in differences:
            lines = [line for other, line in all_statements if other == name]
            our_output, _ = compile_and_run(compiler, ours, lines, folder)
            their_output, _ = compile_and_run(compiler, theirs, lines, folder)
            if our_output == their_output:
                problems.append(f"header_differences.txt lists {name}, which is the same in the wheel")
    for problem in problems:
        print(" ", problem)
    print(f"{len(outputs[0])} facts compared, {len(differences)} names excepted, {len(problems)} problems")
    sys.exit(1 if problems else 0)


if __name__ == "__main__":
    main()
