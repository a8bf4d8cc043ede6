"""The acl headers declare exactly the functions that are exported.

usage: check_prototypes.py <include folder> <exports file>

The runtime below AscendCL (rt...) and the profiler (Msprof...) are exported for torch-npu alone and have no header.
"""
import re
import sys

from check_exports import read_names
from header_names import names_of

declared = set(names_of(sys.argv[1]).functions)
exported = {name for name in read_names(sys.argv[2]) if not re.match(r"rt[A-Z]|Msprof", name)}
problems = [f"{name} is exported but not declared" for name in sorted(exported - declared)]
problems += [f"{name} is declared but not exported" for name in sorted(declared - exported)]
for problem in problems:
    print(" ", problem)
print(f"{len(declared)} prototypes, {len(exported)} exported functions, {len(problems)} problems")
sys.exit(1 if problems or not declared else 0)
