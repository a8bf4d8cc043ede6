"""Where the libraries are: the folder that ASCEND_HOME_PATH has to lead to, and what is in it."""
import os

_PACKAGE = os.path.dirname(os.path.abspath(__file__))

# Everything that torch-npu links or opens by name, each behind those that it needs itself.
LIBRARIES = (
    "libascendcl.so", "libnnopbase.so", "libopapi.so", "libacl_op_compiler.so",
    "libhccl.so", "libge_runner.so", "libgraph.so", "libacl_tdt_channel.so",
    "libmspti.so", "libmsprofiler.so", "libms_tools_ext.so", "libascend_hal.so", "libdcmi.so", "libascend_ml.so",
)
# torch-npu does not start unless they exist.
FOLDERS = ("runtime", "compiler", "opp")


def home():
    """Inside the package when it comes from a wheel, two folders above it in an installed tree."""
    inside = os.path.join(_PACKAGE, "home")
    return inside if os.path.isdir(inside) else os.path.dirname(os.path.dirname(_PACKAGE))


def library_path(name):
    return os.path.join(home(), "lib64", name)


def same_folder(one, other):
    return os.path.realpath(one) == os.path.realpath(other)


def is_ours(folder):
    """Whether the folder holds libraries of this project, be it another copy of them."""
    try:
        with open(os.path.join(folder, "version.info"), encoding="utf-8") as file:
            return any(line.startswith("FusionAttention=") for line in file)
    except (OSError, UnicodeError):
        return False
