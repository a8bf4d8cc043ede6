"""What attention runs on here: the processor, the kernels and why these, threads and why so many, versions, and places.
Exit code 1 when there are no kernels to run."""
import ctypes
import importlib.metadata
import json
import os
import platform
import sys

from ops_transformer.home import home, library_path, same_folder
from ops_transformer.tools import Fault, screen

HELP = "show processor, kernels, threads, versions and places, and the reasons for each choice"
_CPU_INFO = "/proc/cpuinfo"


def add_arguments(parser):
    parser.add_argument("--json", action="store_true", help="print everything as one JSON object")


def run(arguments):
    library = ask_library()
    report = {"processor": library["processor"] or platform.processor() or platform.machine(), "kernels": kernels(library),
              "threads": threads(library), "versions": versions(), "places": places()}
    if arguments.json:
        print(json.dumps(report, indent=2))
    else:
        show(report)
    return 1 if library["chosen"] is None else 0


def ask_library():
    """What libopapi.so says about itself (fusion_attention/kernel_info.h)."""
    path = library_path("libopapi.so")
    try:
        ask = ctypes.CDLL(path).fusionAttentionKernelInfo
    except OSError as error:
        raise Fault(f"{path} cannot be loaded: {error}; `python -m ops_transformer doctor` says what to do") from None
    except AttributeError:
        raise Fault(f"{path} is of another version than this package: install fusion_attention again") from None
    ask.restype = ctypes.c_char_p
    text = ask()
    if not text:
        raise Fault(f"{path} had no memory to describe itself")
    return json.loads(text)


# ---- Kernels ---------------------------------------------------------------------------------------------------------


def processor_flags():
    """As Linux lists them; None where it lists none in that way."""
    try:
        with open(_CPU_INFO, encoding="utf-8", errors="replace") as file:
            return next((set(line.split(":")[1].split()) for line in file if line.startswith("flags")), None)
    except OSError:
        return None


def why_not(table, flags):
    """Why a table cannot run here."""
    missing = [flag for flag in table["needs"] if flags is not None and flag not in flags]
    if missing:
        return f"the processor has no {', '.join(missing)}"
    return "the processor lacks something of it, or the operating system does not save its registers"


def kernels(library):
    flags = processor_flags()
    asked = os.environ.get("ASCEND_CPU_ISA")
    if library["chosen"] is None:
        why = f"none: {library['error']}"
    elif asked:
        why = f"{library['chosen']}, because ASCEND_CPU_ISA={asked}"
    else:
        why = f"{library['chosen']}, the best that runs here (ASCEND_CPU_ISA is not set)"
    tables = [{"name": table["name"], "chosen": table["name"] == library["chosen"], "runs": table["runs"],
               "needs": table["needs"], "why_not": "" if table["runs"] else why_not(table, flags)}
              for table in library["tables"]]
    return {"chosen": library["chosen"], "why": why, "tables": tables}


# ---- Threads ---------------------------------------------------------------------------------------------------------


def threads(library):
    """For both ways to call the operators how many and why."""
    setting = os.environ.get("ASCEND_CPU_THREADS")
    heeded = bool(setting) and setting == str(library["threads"])
    count = {"operators": library["threads"], "why": f"ASCEND_CPU_THREADS={setting}" if heeded else why_threads(library, setting)}
    torch_threads, why = ask_torch()
    if heeded and torch_threads and library["threads"] < torch_threads:
        torch_threads, why = library["threads"], f"ASCEND_CPU_THREADS={setting}, less than {why}, {torch_threads}"
    return {**count, "flash_attention": torch_threads, "why_flash_attention": why}


def why_threads(library, setting):
    allowed = len(os.sched_getaffinity(0))
    ignored = f"; ASCEND_CPU_THREADS={setting} is ignored" if setting else ""
    if library["processors"] < allowed:
        return f"the CPU quota of the control groups, less than the {allowed} processors of the affinity mask{ignored}"
    machine = os.cpu_count()
    return f"processors of the affinity mask, of {machine} in the machine{ignored}"


def ask_torch():
    # What torch would load with it is no matter here, and may be broken.
    os.environ["TORCH_DEVICE_BACKEND_AUTOLOAD"] = "0"
    try:
        import torch
    except ImportError as error:
        return None, f"torch cannot be imported: {error}"
    setting = os.environ.get("OMP_NUM_THREADS")
    return torch.get_num_threads(), "torch.get_num_threads()" + (f", OMP_NUM_THREADS={setting}" if setting else "")


# ---- Versions and places ---------------------------------------------------------------------------------------------


def own_version():
    try:
        with open(os.path.join(home(), "version.info"), encoding="utf-8") as file:
            return next((line.strip().split("=")[1] for line in file if line.startswith("FusionAttention=")), None)
    except OSError:
        return None


def versions():
    found = {"fusion_attention": own_version(), "Python": platform.python_version()}
    for package in ("torch", "torch-npu", "transformers"):
        try:
            found[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            found[package] = None
    return found


def places():
    found = {"libraries": os.path.join(home(), "lib64"), "package": os.path.dirname(os.path.dirname(os.path.abspath(__file__))),
             "Python": sys.executable}
    chosen = os.environ.get("ASCEND_HOME_PATH")
    if chosen and not same_folder(chosen, home()):
        found["ASCEND_HOME_PATH"] = f"{chosen}: torch_npu runs on that installation instead"
    return found


# ---- The tables --------------------------------------------------------------------------------------------------------


def show(report):
    print(f"Processor: {report['processor']}")
    print(f"Kernels:   {report['kernels']['why']}\n")
    rows = [("*" if table["chosen"] else "", table["name"], "yes" if table["runs"] else "no",
             table["why_not"] or ", ".join(table["needs"]) or "any processor") for table in report["kernels"]["tables"]]
    screen.table(("", "kernels", "run here", "need, or why not"), rows)
    counts = report["threads"]
    screen.table(("threads of", "number", "why"), [
        ("the C interface, torch_npu", counts["operators"], counts["why"]),
        ("flash_attention", counts["flash_attention"] or "-", counts["why_flash_attention"]),
    ], right=(1,))
    screen.table(("version of", ""), [(name, found or "not installed") for name, found in report["versions"].items()])
    screen.table(("place of", ""), report["places"].items())
