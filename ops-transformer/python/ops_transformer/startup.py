"""Around the import of torch_npu: it finds our libraries and its variables without set_env.sh, and a sentence says when not.

The loader searches LD_LIBRARY_PATH as it was when the process began, but first of all among the libraries that are loaded
already, by the name that each has inside. So ours are loaded by their paths, before torch_npu asks for the names.
"""
import contextlib
import ctypes
import os
import re

from ops_transformer.home import LIBRARIES, home, is_ours, library_path, same_folder

_DOCTOR = "`python -m ops_transformer doctor` says what to do"
_NOT_FOUND = re.compile(r"(\w+\.so)[\w.]*: cannot open shared object file")
_NO_SYMBOL = re.compile(r"undefined symbol: (acl\w+|rt[A-Z]\w+|Msprof\w+)")


@contextlib.contextmanager
def libraries():
    """The import of torch_npu goes inside. Gives whether it will run on libraries of this project: whoever has set
    ASCEND_HOME_PATH to others means those, for example on a machine with an NPU."""
    chosen = os.environ.get("ASCEND_HOME_PATH")
    if not chosen or same_folder(chosen, home()):
        _set_variables()
        _load()
    try:
        yield not chosen or is_ours(chosen)
    except (ImportError, OSError) as error:
        sentence = _explain(str(error))
        if sentence is None:
            raise
        raise ImportError(sentence) from None


def _set_variables():
    os.environ["ASCEND_HOME_PATH"] = os.environ["ASCEND_TOOLKIT_HOME"] = home()
    os.environ["ASCEND_OPP_PATH"] = os.path.join(home(), "opp")
    # The task queue has nothing to hide on a CPU, and after an error only mode 0 goes on working.
    if not os.environ.get("TASK_QUEUE_ENABLE"):
        os.environ["TASK_QUEUE_ENABLE"] = "0"


def _load():
    # By the program that Python is a part of, perhaps; a second copy would know nothing of its devices.
    present = [name for name in LIBRARIES if _is_loaded(name)]
    for name in (name for name in LIBRARIES if name not in present):
        path = library_path(name)
        exists = os.path.exists(path)
        try:
            ctypes.CDLL(path if exists else name)  # components may be installed in several folders
        except OSError as error:
            beside = f" beside the {present[0]} that this process has already" if present else ""
            reason = f"cannot be loaded{beside}: {error}" if exists else f"is neither {path} nor in a folder of LD_LIBRARY_PATH"
            raise ImportError(f"torch_npu needs {name}, which {reason}; {_DOCTOR}") from None


def _is_loaded(name):
    try:
        ctypes.CDLL(name, os.RTLD_NOLOAD)
    except OSError:
        return False
    return True


def _explain(text):
    """A sentence for the loader's text about a library of ours or a function that one should have; None for any other text."""
    place = os.environ.get("ASCEND_HOME_PATH")
    place = f"ASCEND_HOME_PATH is {place}" if place else "ASCEND_HOME_PATH is not set"
    library, symbol = _NOT_FOUND.search(text), _NO_SYMBOL.search(text)
    if library and library[1] in LIBRARIES:
        return f"torch_npu needs {library[1]}, which was not found ({place}); {_DOCTOR}"
    if symbol:
        return f"torch_npu needs the function {symbol[1]}, which the libraries do not have ({place}); {_DOCTOR}"
    return None
