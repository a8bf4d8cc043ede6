"""The hook that loads the operators after torch_npu, among other finders, with stand-ins for the packages that write down when
they are loaded."""

import importlib.util
import subprocess
import sys

import pytest

HOOK = "_fusion_attention_op_plugin_hook"

# Another package's hook of the same kind, which notes when it acts. It asks those behind it, or all others.
OTHER_FINDER = """
class Other:
    def find_spec(self, name, path=None, target=None):
        if name != "torch_npu":
            return None
        mine = sys.meta_path.index(self)
        for finder in {whom}:
            spec = finder.find_spec(name, path, target)
            if spec is not None:
                load = spec.loader.exec_module
                def exec_module(module):
                    del spec.loader.exec_module
                    load(module)
                    steps.append("other")
                spec.loader.exec_module = exec_module
                return spec
sys.meta_path.insert(0, Other())
"""
WHOM = {"behind": "sys.meta_path[mine + 1:]", "all": "[one for one in sys.meta_path if one is not self]"}
OUR_FINDER = f"import {HOOK}\n"


@pytest.fixture
def run(tmp_path):
    """Runs a program in a bare Python that knows the hook and the stand-ins; what it prints."""
    (tmp_path / "torch_npu.py").write_text("import sys; sys.steps.append('torch_npu')")
    (tmp_path / "fusion_attention_op_plugin.py").write_text("import sys; sys.steps.append('operators')")
    hook = importlib.util.find_spec(HOOK).origin
    (tmp_path / f"{HOOK}.py").write_bytes(open(hook, "rb").read())

    def run(program):
        start = f"import sys; sys.path.insert(0, {str(tmp_path)!r}); sys.steps = steps = []\n"
        # -B: a stand-in that is written anew within a second would be taken from the cache of the first.
        done = subprocess.run([sys.executable, "-B", "-I", "-S", "-c", start + program], text=True, capture_output=True, timeout=60)
        assert done.returncode == 0, done.stderr
        return done

    return run


def test_operators_follow_torch_npu(run):
    assert run(OUR_FINDER + "import torch_npu; print(*steps)").stdout.split() == ["torch_npu", "operators"]


@pytest.mark.parametrize("whom", WHOM.values(), ids=WHOM.keys())
@pytest.mark.parametrize("order", ["ours first", "other first"])
def test_another_finder_of_the_same_kind(run, whom, order):
    """Both act, once, whichever was installed first."""
    other = OTHER_FINDER.format(whom=whom)
    installed = other + OUR_FINDER if order == "ours first" else OUR_FINDER + other  # the last one comes first
    steps = run(installed + "import torch_npu; print(*steps)").stdout.split()
    assert steps[0] == "torch_npu" and sorted(steps[1:]) == ["operators", "other"]


@pytest.mark.parametrize("whom", WHOM.values(), ids=WHOM.keys())
def test_looking_for_torch_npu_loads_nothing(run, whom):
    program = "from importlib.util import find_spec; assert find_spec('torch_npu'); print(len(steps)); import torch_npu; print(*steps)"
    lines = run(OTHER_FINDER.format(whom=whom) + OUR_FINDER + program).stdout.splitlines()
    assert lines[0] == "0" and sorted(lines[1].split()) == ["operators", "other", "torch_npu"]


def test_without_torch_npu(run):
    run(OUR_FINDER + """
sys.path.pop(0)
try:
    import torch_npu
except ModuleNotFoundError:
    pass
else:
    raise AssertionError("found")
import json  # others are found as ever
""")


def test_operators_that_cannot_be_loaded(run, tmp_path):
    """torch_npu is of use without them, and a warning says what is missing."""
    (tmp_path / "fusion_attention_op_plugin.py").write_text("raise ImportError('built for another torch-npu')")
    done = run(OUR_FINDER + "import torch_npu; print(*steps)")
    assert done.stdout.split() == ["torch_npu"]
    assert "torch_npu.swa_forward and torch_npu.swa_backward are not available: built for another torch-npu" in done.stderr


def test_libraries_that_are_missing(run, tmp_path):
    """Where there is this wheel and torch-npu only. Other errors stay what they are."""
    program = OUR_FINDER + "try:\n    import torch_npu\nexcept ImportError as error:\n    print(error)"
    loader = "{}: cannot open shared object file: No such file or directory"
    for library, sentence in [("libhccl.so", "torch_npu needs libhccl.so, which was not found: install the wheel of "
                               "fusion_attention beside fusion_attention_op_plugin, or source set_env.sh of an installed tree first"),
                              ("libelse.so", loader.format("libelse.so"))]:
        (tmp_path / "torch_npu.py").write_text(f"raise ImportError({loader.format(library)!r})")
        assert run(program).stdout.strip() == sentence
