"""The checks, each a function that returns a Finding. None of them imports torch: where libraries are missing that would end
in the loader's text, or in a crash. What has to be loaded is loaded by another process (smoke.py)."""
import importlib.machinery
import importlib.util
import os
import platform
import signal
import subprocess
import sys
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from ops_transformer.doctor import symbols
from ops_transformer.home import FOLDERS, LIBRARIES, home, library_path, same_folder

# The versions that the libraries and the kernels for npu tensors are built for and tested with.
VERSIONS = {"torch": "2.13.0", "torch-npu": "2.13.0"}
_SMOKE_TIMEOUT = 300  # seconds; a start takes some on an idle machine


@dataclass(frozen=True)
class Finding:
    good: bool
    text: str
    advice: str = ""


def _set_env():
    return f"source {home()}/set_env.sh"


def _install_again():
    return "install fusion_attention again: its files are not complete"


def _torch_npu():
    """The package folder of torch_npu, found without importing it; None when there is none."""
    spec = importlib.util.find_spec("torch_npu")
    return Path(spec.submodule_search_locations[0]) if spec and spec.submodule_search_locations else None


def check_python():
    folder = _torch_npu()
    found = f"{platform.python_implementation()} {platform.python_version()} on {platform.machine()}"
    if folder and not any((folder / f"_C{suffix}").exists() for suffix in importlib.machinery.EXTENSION_SUFFIXES):
        return Finding(False, f"{found}, for which the installed torch-npu was not built",
                       f"use the Python that {', '.join(path.name for path in folder.glob('_C.*'))} is for")
    return Finding(True, found)


def _check_version(package):
    wanted = VERSIONS[package]
    try:
        found = version(package)
    except PackageNotFoundError:
        return Finding(False, "not installed", f"install {package}=={wanted} for {sys.executable}")
    if found.split("+")[0] != wanted:
        return Finding(False, f"{found}, but the libraries are for {wanted}", f"install {package}=={wanted}")
    return Finding(True, found)


def check_torch():
    return _check_version("torch")


def check_torch_npu():
    return _check_version("torch-npu")


def check_libraries():
    missing = [name for name in LIBRARIES if not os.path.exists(library_path(name))]
    if missing:
        return Finding(False, f"{library_path(missing[0])} is missing" +
                       (f", and {len(missing) - 1} more" if missing[1:] else ""), _install_again())
    return Finding(True, f"{len(LIBRARIES)} in {home()}/lib64")


def check_folders():
    missing = [name for name in FOLDERS if not os.path.isdir(os.path.join(home(), name))]
    if missing:
        return Finding(False, f"{', '.join(missing)} missing in {home()}: torch-npu does not start without", _install_again())
    return Finding(True, ", ".join(FOLDERS))


def check_kernels():
    import npu_fallback

    if not os.path.exists(npu_fallback.LIBRARY):
        return Finding(False, f"{npu_fallback.LIBRARY} is missing: npu tensors have no operators but attention",
                       "install fusion_attention again, from a build that found torch")
    try:
        wanted = npu_fallback.is_wanted()
    except ImportError as error:
        return Finding(False, str(error), f"unset {npu_fallback.SWITCH}")
    return Finding(True, "of PyTorch's CPU operators" if wanted else f"switched off: {npu_fallback.SWITCH} is off")


def check_hook():
    if any(type(finder).__module__ == "npu_fallback.import_hook" for finder in sys.meta_path):
        return Finding(True, "torch_npu is prepared when it is imported")
    return Finding(False, "nothing waits for torch_npu: Python read neither fusion_attention's .pth file nor sitecustomize.py",
                   f"start Python without -S, and install fusion_attention into its site-packages or {_set_env()}")


def check_home_path():
    chosen = os.environ.get("ASCEND_HOME_PATH")
    if not chosen:
        return Finding(True, f"not set; will be {home()}")
    if not same_folder(chosen, home()):
        return Finding(False, f"{chosen}, another installation than {home()}", f"unset ASCEND_HOME_PATH, or {_set_env()}")
    return Finding(True, chosen)


def check_opp_path():
    chosen = os.environ.get("ASCEND_OPP_PATH")
    wanted = os.path.join(home(), "opp")
    if not os.environ.get("ASCEND_HOME_PATH"):
        return Finding(True, f"will be {wanted}")
    if not chosen or not same_folder(chosen, wanted):
        return Finding(False, f"{chosen or 'not set'}, but ASCEND_HOME_PATH is set", _set_env())
    return Finding(True, chosen)


def check_library_path():
    """Who comes first with a library of ours. The start-up loads ours by path, but programs that are not Python do not."""
    ours = os.path.join(home(), "lib64")
    for folder in filter(None, os.environ.get("LD_LIBRARY_PATH", "").split(":")):
        if same_folder(folder, ours):
            return Finding(True, f"{folder} comes first")
        other = next((name for name in LIBRARIES if os.path.exists(os.path.join(folder, name))), None)
        if other:
            return Finding(False, f"{folder} comes first with another {other}",
                           f"take it out of LD_LIBRARY_PATH, or {_set_env()}")
    return Finding(True, "has no folder with such libraries; they are loaded by path")


def check_task_queue():
    mode = os.environ.get("TASK_QUEUE_ENABLE")
    if mode in ("1", "2"):
        return Finding(True, f"{mode}: works, but not after an error of an operator; 0 does")
    if mode not in (None, "", "0"):
        return Finding(False, f"{mode!r}, but torch-npu knows 0, 1 and 2 only", "unset TASK_QUEUE_ENABLE")
    return Finding(True, "0" if mode else "not set; will be 0")


def check_symbols():
    folder = _torch_npu()
    if folder is None:
        return Finding(False, "torch_npu is not installed", _check_version("torch-npu").advice)
    result = symbols.compare(folder, os.path.join(home(), "lib64"))
    if result.problems:
        return Finding(False, _some(result.problems), f"install torch-npu=={VERSIONS['torch-npu']}, or fusion_attention again")
    return Finding(True, f"{len(result.symbols)} functions and {len(result.files)} files that torch-npu links are there")


def check_looked_up():
    missing = symbols.missing_when_looked_up(os.path.join(home(), "lib64"))
    if missing:
        return Finding(False, _some([f"{library} has no {name}" for library, name in missing]), _install_again())
    return Finding(True, f"{sum(map(len, symbols.LOOKED_UP.values()))} functions that torch-npu asks for later are there")


def _some(sentences):
    more = f" (and {len(sentences) - 2} more)" if sentences[2:] else ""
    return "; ".join(sentences[:2]) + more


def check_start():
    advice = "run again with ASCEND_CPU_LOG=debug, which shows the calls into the libraries"
    try:
        done = subprocess.run([sys.executable, "-m", "ops_transformer.doctor.smoke"], capture_output=True, text=True,
                              stdin=subprocess.DEVNULL, timeout=_SMOKE_TIMEOUT)
    except subprocess.TimeoutExpired:
        return Finding(False, f"no end within {_SMOKE_TIMEOUT} s", advice)
    text = (done.stdout.splitlines() or done.stderr.splitlines() or ["no output"])[-1]
    if done.returncode < 0:
        text += f" (the process ended by {signal.Signals(-done.returncode).name})"
    return Finding(done.returncode == 0, text, "" if done.returncode == 0 else advice)


CHECKS = {
    "Python": check_python,
    "torch": check_torch,
    "torch-npu": check_torch_npu,
    "libraries": check_libraries,
    "folders": check_folders,
    "kernels": check_kernels,
    "start-up hook": check_hook,
    "ASCEND_HOME_PATH": check_home_path,
    "ASCEND_OPP_PATH": check_opp_path,
    "LD_LIBRARY_PATH": check_library_path,
    "TASK_QUEUE_ENABLE": check_task_queue,
    "linked functions": check_symbols,
    "other functions": check_looked_up,
}
