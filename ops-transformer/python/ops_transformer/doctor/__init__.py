"""The checker: one line for each check, and below what fails a line that says what to do."""
from ops_transformer.doctor.checks import CHECKS, Finding, check_start


HELP = "check that torch-npu can run here; exit code 1 if it cannot"


def add_arguments(parser):
    pass


def run(arguments=None):
    """Prints the table. The exit code: 0 when nothing failed."""
    good = True
    for name, check in CHECKS.items():
        good = _show(name, _examine(check)) and good
    if good:
        good = _show("start", _examine(check_start))
    else:
        _line("-", "start", "not tried: see above")
    print("torch-npu can run here" if good else "torch-npu cannot run here as it is: follow the lines that begin with ->")
    return 0 if good else 1


def _examine(check):
    try:
        return check()
    except (OSError, ValueError, ImportError) as error:  # a file that cannot be read, or is not what its name says
        return Finding(False, str(error), "install fusion_attention and torch-npu again")


def _show(name, finding):
    _line("ok" if finding.good else "FAIL", name, finding.text)
    if not finding.good:
        _line("", "", f"-> {finding.advice}")
    return finding.good


def _line(mark, name, text):
    print(f"{mark:<5} {name:<18} {text}", flush=True)
