#!/usr/bin/env bash
# Builds and runs every test and ends in one line "N passed, N failed"; exit code 0 only when nothing failed.
# Sets up a bare Debian or Ubuntu machine by itself. What is installed and built already is kept, so that a second run is
# much faster. A step that fails counts as a failed test and does not keep the others from running.
source "$(dirname "${BASH_SOURCE[0]}")/setup.sh"

begin=$SECONDS
RESULTS=$BUILD/results
rm -rf "$RESULTS"
mkdir -p "$RESULTS"
reports=("$RESULTS/steps.txt")

# A step that counts as one test.
check() {
    local title=$1 outcome=passed
    shift
    "$@" || outcome=failed
    printf '%s\t%s\n' "$outcome" "$title" >>"$RESULTS/steps.txt"
    [ "$outcome" = passed ]
}

# collect <report> <title> <log> <command...>: runs tests that write a report; its cases are counted, not the step.
collect() {
    local report=$1
    shift
    reports+=("$report")
    run "$@" || true
    "$PYTHON" "$ROOT/ci/count_results.py" --brief "$report"
}

run_ctest() {
    local preset=$1
    shift
    collect "$RESULTS/ctest-$preset.xml" "C++ tests, $preset" "ctest-$preset" \
        ctest --test-dir "$BUILD/$preset" --parallel "$JOBS" --output-on-failure --no-tests=error \
        --output-junit "$RESULTS/ctest-$preset.xml" "$@"
}

# The tests of a user's view run on the installed tree, with the environment that set_env.sh makes. They wait most of the
# time, so that they run beside the next build.
run_pytest() (
    source "$PREFIX/set_env.sh"
    cd "$ROOT"
    export FUSION_BUILD=$BUILD/release FUSION_WORK=$BUILD
    # The build beside takes processors: threads that spin until all of them have come would wait for whole time slices.
    export OMP_WAIT_POLICY=passive
    "$PYTHON" -m pytest -ra --durations=10 "--junitxml=$RESULTS/pytest.xml" >"$LOGS/pytest.log" 2>&1 </dev/null
)

# The operators of op-plugin, built and installed as a user would; what is built already is only packed again.
install_op_plugin() {
    local folder=$ROOT/op-plugin python
    python=$("$PYTHON" -c 'import sys; print("%d.%d" % sys.version_info[:2])')
    run "op-plugin wheel" op-plugin env VIRTUAL_ENV="$VENV" bash "$folder/ci/build.sh" "--python=$python" --pytorch=2.13.0 &&
        run "op-plugin installation" pip-op-plugin "$PYTHON" -m pip install --disable-pip-version-check --no-index --no-deps \
            --force-reinstall "$folder"/dist/*.whl
}

# Inputs that break a promise stay in build/asan/fuzz; ops-transformer/fuzz/README.md says what to do with one.
fuzz() {
    local found=$BUILD/asan/fuzz
    mkdir -p "$found"
    run "arguments made by libFuzzer, one minute" fuzz "$BUILD/asan/bin/flash_attention_fuzz" -max_total_time=60 \
        -max_len=56 -len_control=0 -timeout=20 "-artifact_prefix=$found/" "$found" "$ROOT/ops-transformer/fuzz/corpus"
}

# Checks a build that another processor than this one would run: the tests labelled "tables" on emulated hardware.
check_emulated() {
    local preset=$1
    if check "$preset build" build_preset "$preset" table_tests; then run_ctest "$preset" --label-regex tables; fi
}

setup_build_tools zsh libbenchmark-dev qemu-user
# clang 14 where the system offers it, else its own clang.
clang_options=()
if is_installed clang-14 || apt-cache show clang-14 >/dev/null 2>&1; then
    install_packages clang-14 libclang-rt-14-dev
else
    install_packages clang libclang-rt-dev
    clang_options=(-DCMAKE_C_COMPILER=clang -DCMAKE_CXX_COMPILER=clang++)
fi
setup_python
# For the C++ tests that compare with the wheel, whichever Python CMake finds for their scripts.
FUSION_TORCH_NPU_DIR=$("$PYTHON" -c 'import importlib.util as u; print(u.find_spec("torch_npu").submodule_search_locations[0])')
export FUSION_TORCH_NPU_DIR

heading "op-plugin: swa_forward and swa_backward, built against the torch-npu wheel"
check "op-plugin wheel" install_op_plugin || true

heading "Release build, installed into install/"
pytest=
if check "release build" build_preset release && check "installation" install_release; then
    heading "Tests"
    run_ctest release
    reports+=("$RESULTS/pytest.xml")
    note "Python and installation tests begin; log: build/logs/pytest.log"
    run_pytest &
    pytest=$!
fi

# The second compiler makes one of the two, so that it compiles everything once; its warnings are errors.
heading "Sanitizers: address and undefined behaviour with clang, threads with g++ (without tests labelled slow)"
CONFIGURE_OPTIONS=("${clang_options[@]}" -DENABLE_FUZZING=ON)
asan=
tsan=
if check "asan build (clang)" build_preset asan; then asan=built; fi
CONFIGURE_OPTIONS=()
if check "tsan build" build_preset tsan; then tsan=built; fi
# Both builds come first: the Python tests leave a processor idle most of the time. Tests under sanitizers do not: they wait.
if [ -n "$pytest" ]; then
    wait "$pytest" || tail -n 40 "$LOGS/pytest.log" | sed 's/^/   | /'
    "$PYTHON" "$ROOT/ci/count_results.py" --brief "$RESULTS/pytest.xml"
fi
if [ -n "$asan" ]; then
    run_ctest asan --label-exclude slow
    # From the corpus in the tree and what earlier runs found.
    check "fuzzing the C interface" fuzz || true
fi
if [ -n "$tsan" ]; then run_ctest tsan --label-exclude slow; fi

heading "Other processors: AVX-512 kernels emulated with AVX2, and 64-bit ARM under qemu"
if grep -qw avx2 /proc/cpuinfo; then
    install_packages libsimde-dev
    check_emulated emulated
else
    note "no AVX2 to emulate AVX-512 with"
fi
if [ "$(uname -m)" = x86_64 ]; then
    install_packages g++-aarch64-linux-gnu googletest
    check_emulated aarch64
fi

heading "Summary after $((SECONDS - begin)) s (logs: build/logs, reports: build/results)"
exec "$PYTHON" "$ROOT/ci/count_results.py" "${reports[@]}"
