"""What the libraries of the torch-npu wheel need from an Ascend toolkit, beside what ours show. Nothing is loaded for that."""
import re
from dataclasses import dataclass, field
from pathlib import Path

from ops_transformer.doctor import elf

# How the names of the vendor's stack begin: AscendCL, the runtime below it, profiler, collectives, graph engine.
_VENDOR = re.compile(r"(acl|rt[A-Z]|Msprof|mspti|mstx|dcmi|Hccl|hccl|_ZNK?2ge)")
# Libraries that come with the wheel, with torch or with the system.
_OTHERS = re.compile(r"(libtorch|libc10|libop_plugin|libtensorpipe|libnpu_profiler"
                     r"|lib(c|m|dl|rt|pthread|gcc_s|stdc\+\+)\.so|ld-linux)")
# Loaded on demand, and meant to stay without their counterparts: the operators of another vendor package, and the bridge to the
# vendor's graph compiler.
_ON_DEMAND = ("lib/libop_plugin_atb.so", "dynamo/torchair/")

# What torch-npu asks for by name while it runs and cannot do without, by the library whose handle it asks. (Many other names are
# optional: without them it takes another path.)
_ATTENTION = [f"FlashAttention{kind}" for kind in (
    "Score", "ScoreV2", "ScoreV3", "ScoreGrad", "ScoreGradV2", "ScoreGradV3",
    "VarLenScore", "VarLenScoreV2", "VarLenScoreV3", "VarLenScoreV4", "VarLenScoreV5",
    "UnpaddingScoreGrad", "UnpaddingScoreGradV2", "UnpaddingScoreGradV3", "UnpaddingScoreGradV4", "UnpaddingScoreGradV5")]
_OPERATORS = [*_ATTENTION, "RingAttentionUpdateV2", "DropoutGenMask", "DropoutGenMaskV2"]
_META = ["Tensor", "Scalar", "IntArray", "BoolArray", "TensorList", "ScalarList"]
LOOKED_UP = {
    "libascendcl.so": [
        "aclrtSetDeviceSatMode", "aclrtSetOpExecuteTimeOut", "aclrtCreateEventExWithFlag", "aclrtCreateEventWithFlag",
        "aclrtQueryEventStatus", "aclrtStreamQuery", "aclrtSynchronizeDeviceWithTimeout", "aclrtMemsetAsync"],
    "libacl_op_compiler.so": ["aclSetCompileopt", "aclrtGetSysParamOpt", "aclrtCtxSetSysParamOpt"],
    "libopapi.so": [*(f"acl{verb}{kind}" for kind in _META for verb in ("Create", "Destroy")),
                    *(f"aclnn{name}{phase}" for name in _OPERATORS for phase in ("GetWorkspaceSize", ""))],
}


@dataclass
class Comparison:
    symbols: set = field(default_factory=set)  # that the wheel needs
    files: set = field(default_factory=set)
    problems: list = field(default_factory=list)  # sentences


def compare(torch_npu, ours):
    """Undefined symbols and needed files of the wheel in one folder, against the libraries in another."""
    result = Comparison()
    provided = {path.name: elf.read(path) for path in Path(ours).glob("*.so")}
    shown = frozenset().union(*(library.defined for library in provided.values()))
    for path in sorted(Path(torch_npu).rglob("*.so*")):
        if path.relative_to(torch_npu).as_posix().startswith(_ON_DEMAND):
            continue
        library = elf.read(path)
        symbols = {name for name in library.undefined if _VENDOR.match(name)}
        files = {name for name in library.needed if not _OTHERS.match(name)}
        result.symbols |= symbols
        result.files |= files
        result.problems += [f"{path.name} needs {name}" for name in sorted(symbols - shown) + sorted(files - provided.keys())]
    return result


def missing_when_looked_up(ours):
    """(library, name) of what a look-up on the library's handle, which goes on in the libraries it needs, would not find."""
    return [(name, symbol) for name, symbols in LOOKED_UP.items()
            for shown in [_shown_by_handle(Path(ours), name)] for symbol in symbols if symbol not in shown]


def _shown_by_handle(folder, name):
    seen, waiting, shown = set(), [name], set()
    while waiting:
        path = folder / waiting.pop()
        if path not in seen and path.exists():
            seen.add(path)
            library = elf.read(path)
            shown |= library.defined
            waiting += library.needed
    return shown
