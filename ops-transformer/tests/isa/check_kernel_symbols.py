"""Kernel files must not define functions that the linker could share with other files.

check_kernel_symbols.py --nm NM ARCHIVE

Each member kernels_<isa>.cpp.o of the archive is compiled for its own instruction set. A function that it defines outside
of the namespace flash_attention::<isa>, such as an instance of a template of the standard library, may be the one that the
linker keeps for everybody, and then code for a better processor runs on all of them. So every symbol that is visible to
the linker has to be in that namespace.
"""

import re
import subprocess
import sys

# Letters of nm: T text, W/w and V/v weak, u unique, i indirect function; B, D, R and G are data. Lower case is local,
# except for w, v and u; an undefined symbol has no address.
WEAK_OR_UNIQUE = "WwVvui"
# One pointer to the personality routine of exceptions, the same in every object file: no code.
HARMLESS = {"DW.ref.__gxx_personality_v0"}


def belongs_to(symbol, isa):
    """Whether a mangled name is in flash_attention::<isa>: a name, a local of it, its guard, or its vtable or typeinfo."""
    nested = rf"N[rVK]*15flash_attention{len(isa)}{isa}"
    return re.match(rf"_Z(GV)?(Z*|T[VTIS])[L]?{nested}", symbol) is not None


def members(nm, archive):
    """Yields the name of each member and its defined symbols with their letters."""
    text = subprocess.run([nm, "--defined-only", archive], check=True, capture_output=True, text=True).stdout
    name = None
    symbols = []
    for line in text.splitlines() + ["end:"]:
        if line.endswith(":"):
            if name:
                yield name, symbols
            name, symbols = line[:-1], []
        elif line.strip():
            *_, letter, symbol = line.split()
            symbols.append((letter, symbol))


def main(arguments):
    nm, archive = arguments[arguments.index("--nm") + 1], arguments[-1]
    checked = wrong = 0
    for member, symbols in members(nm, archive):
        match = re.fullmatch(r"kernels_(\w+)\.cpp\.o(bj)?", member)
        if not match:
            continue
        isa = match[1]
        checked += 1
        own = 0
        for letter, symbol in symbols:
            if not (letter.isupper() or letter in WEAK_OR_UNIQUE) or symbol in HARMLESS:
                continue
            if belongs_to(symbol, isa):
                own += 1
            else:
                wrong += 1
                print(f"{member}: {letter} {symbol} is not in flash_attention::{isa}")
        if own == 0:
            wrong += 1
            print(f"{member}: nothing is in flash_attention::{isa}, not even its table")
    print(f"{checked} kernel files, {wrong} symbols outside of their namespaces")
    return 1 if wrong or not checked else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv))
