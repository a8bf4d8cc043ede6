"""Compares this library with a double-precision reference: calls given as problem strings, or random ones.

Every element of every output has a bound (docs/accuracy.md says why it is what it is); the table shows how much of it the
worst error takes. Exit code 0: all within their bounds, 1: something is not, 2: an argument is wrong. An example:

    python -m ops_transformer verify 'layout=BNSD dtype=bf16 n=8/2 d=64 q=100 kv=300 mode=3 mask=compressed'"""
import json
import os
import subprocess
import threading
from dataclasses import dataclass

from ops_transformer.home import home
from ops_transformer.tools import Fault, WrongArguments, screen

HELP = "compare with a double-precision reference: problem strings, or random ones"
_USUAL = 200  # random cases when nothing is asked for: some seconds


def add_arguments(parser):
    parser.add_argument("problems", nargs="*", metavar="problem", help="a problem string (keys: docs/tools.md); may be repeated")
    parser.add_argument("--random", type=int, metavar="N", help=f"N random cases; {_USUAL} when there is no problem string")
    parser.add_argument("--seed", type=int, default=1, metavar="S", help="another sequence of random cases (default 1)")
    parser.add_argument("--backward", action="store_true", help="the random cases are gradients")
    parser.add_argument("--bound-scale", type=float, default=1.0, metavar="X",
                        help="allow only this share of each bound, from 0 to 1 (default 1)")
    parser.add_argument("--json", metavar="FILE", help="write one line of JSON per case")


def run(arguments):
    command = [program(), *options(arguments), *arguments.problems]
    cases = ask_cases(command)
    results, code = examine(command, len(cases))
    if arguments.json:
        write(arguments.json, results)
    show(results)
    return code


def program():
    path = os.path.join(home(), "bin", "attention_verify")
    if not os.path.exists(path):
        raise Fault(f"{path} is missing: install fusion_attention again, from a build with FUSION_TOOLS=ON")
    return path


def options(arguments):
    """Of the program, which checks them."""
    count = arguments.random
    if count is None and not arguments.problems:
        count = _USUAL
    chosen = [f"--bound-scale={arguments.bound_scale}"]
    if count is not None:
        chosen += [f"--random={count}", f"--seed={arguments.seed}"]
    return chosen + ["--backward"] * arguments.backward


def environment():
    """The program finds the libraries by its own path; nothing may lead it to others."""
    changed = {"LD_LIBRARY_PATH": os.path.join(home(), "lib64"), "ASCEND_HOME_PATH": home()}
    # Random cases give every legal argument, also those that a warning says something about.
    return {"ASCEND_CPU_LOG": "error", **os.environ, **changed}


# ---- The program ---------------------------------------------------------------------------------------------------------


def ask_cases(command):
    """The problem strings of what would run. Wrong arguments end here, before any work."""
    done = subprocess.run([*command, "--print"], env=environment(), capture_output=True, text=True, stdin=subprocess.DEVNULL)
    if done.returncode == 2:
        raise WrongArguments(done.stderr.strip().removeprefix("error: "))
    if done.returncode != 0:
        raise Fault(f"{command[0]} ended with {done.returncode}: {done.stderr.strip()}")
    return done.stdout.splitlines()


def examine(command, count):
    """A dictionary per case, and the exit code. What the libraries log goes where it always goes."""
    process = subprocess.Popen(command, env=environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                               stdin=subprocess.DEVNULL)
    errors = []
    # Else a full pipe of errors would stop the program while we wait for a line.
    reader = threading.Thread(target=lambda: errors.extend(process.stderr), daemon=True)
    reader.start()
    results = []
    with process, screen.progress(count, "verify") as advance:
        for line in process.stdout:
            results.append(json.loads(line))
            advance()
        code = process.wait()
        reader.join()
    said = "".join(errors).strip()
    if code not in (0, 1) or len(results) != count:
        raise Fault(f"{command[0]} ended with {code} after {len(results)} of {count} cases: {said or 'no text'}")
    if said:
        print(said)
    return results, code


def write(path, results):
    try:
        with open(path, "w", encoding="utf-8") as file:
            file.writelines(json.dumps(result) + "\n" for result in results)
    except OSError as error:
        raise WrongArguments(f"--json {path}: {error.strerror}") from None


# ---- The table -----------------------------------------------------------------------------------------------------------


@dataclass
class Summary:
    """Of one output in one element type, over all cases."""

    elements: int = 0
    cases: int = 0
    worst: dict = None
    case: str = ""

    def add(self, case, output):
        self.elements += output["elements"]
        self.cases += 1
        if self.worst is None or _ratio(output) > _ratio(self.worst):
            self.worst, self.case = output, case


def _ratio(output):
    """How much of the bound the worst error takes; what is not finite is written as null."""
    return float("inf") if output["ratio"] is None else output["ratio"]


def summarise(results):
    """By element type of the call and output."""
    table = {}
    for result in results:
        dtype = next(word for word in result["case"].split() if word.startswith("dtype=")).removeprefix("dtype=")
        for output in result["outputs"]:
            table.setdefault((dtype, output["name"]), Summary()).add(result["case"], output)
    return table


def _number(value):
    return "not finite" if value is None else f"{value:.2e}"


def show(results):
    found = summarise(results)
    rows = [(dtype, name, one.cases, one.elements, _number(one.worst["error"]), _number(one.worst["bound"]),
             f"{_ratio(one.worst):.3f}") for (dtype, name), one in sorted(found.items(), key=lambda item: item[0][0])]
    if rows:
        screen.table(("dtype", "output", "cases", "elements", "error", "bound", "error/bound"), rows,
                     right=(2, 3, 4, 5, 6))
    if len(results) > 1 and found:
        (_, name), one = max(found.items(), key=lambda item: _ratio(item[1].worst))
        print(f"Closest to its bound: {name} of\n       {one.case}\n")
    wrong = [result for result in results if not result["ok"]]
    for result in wrong:
        print(f"FAILED {result['case']}")
        for problem in result["problems"]:
            print(f"       {problem}")
    print(f"{len(results) - len(wrong)} of {len(results)} cases are within their bounds")
