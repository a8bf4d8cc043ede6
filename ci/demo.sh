#!/usr/bin/env bash
# Builds and installs the libraries, then shows them at work: a C++ program against the installed tree, and torch-npu's
# attention on npu tensors. Sets up a bare Debian or Ubuntu machine by itself; run it again at any time.
source "$(dirname "${BASH_SOURCE[0]}")/setup.sh"

setup_build_tools
setup_python

heading "Libraries"
build_preset release fusion_libraries || exit 1
install_release || exit 1

# From here on a user's steps: source, compile, run.
source "$PREFIX/set_env.sh"

heading "C++: variable-length attention with a sliding window (cann-learning-hub/examples/flash_attention_varlen)"
example=$BUILD/demo/flash_attention_varlen
mkdir -p "${example%/*}"
compile=(g++ -std=c++17 -O2 "$ROOT/cann-learning-hub/examples/flash_attention_varlen/main.cpp"
    "-I$ASCEND_HOME_PATH/include" "-L$ASCEND_HOME_PATH/lib64" -lopapi -lnnopbase -lascendcl -o "$example")
run "compile" demo-compile "${compile[@]}"
"$example" | sed 's/^/   /'

heading "Python: torch_npu.npu_fusion_attention on npu tensors (ci/demo_npu.py)"
"$PYTHON" "$ROOT/ci/demo_npu.py" 2>"$LOGS/demo-npu.log" | sed 's/^/   /' || {
    tail -n 20 "$LOGS/demo-npu.log" | sed 's/^/   | /' >&2
    fail "the Python program failed"
}

heading "Done"
note "In a shell of your own:  source $PREFIX/set_env.sh"
