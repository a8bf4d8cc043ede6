# Functions that demo.sh and test.sh share; source it from bash. Everything is done once: what is installed and built
# already is only looked at, and then no network is needed.
#
#   FUSION_VENV    folder of the Python environment (default: .venv in the repository)
#   FUSION_PYTHON  interpreter to make it from (default: python3.11, else python3)
#   FUSION_TORCH   requirement for torch when no CPU build is on offer (see install_torch)
#   FUSION_JOBS    parallel jobs of builds and tests (default: all processors)

set -euo pipefail
ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
BUILD=$ROOT/build
PREFIX=$ROOT/install
LOGS=$BUILD/logs
VENV=${FUSION_VENV:-$ROOT/.venv}
PYTHON=$VENV/bin/python
JOBS=${FUSION_JOBS:-$(nproc)}
mkdir -p "$LOGS"

heading() { printf '\n== %s\n' "$*"; }
note() { printf '   %s\n' "$*"; }
fail() {
    printf '\nerror: %s\n' "$1" >&2
    shift
    for line in "$@"; do printf '       %s\n' "$line" >&2; done
    exit 1
}

# run <title> <log name> <command...>: one step, its output in a log. Says that it is alive every 20 seconds, how long it
# took, and on failure what the end of the log says. Returns the command's code.
run() {
    local title=$1 log=$LOGS/$2.log start=$SECONDS pid code=0
    shift 2
    printf '   %-42s log: %s\n' "$title" "${log#"$ROOT/"}"
    "$@" >"$log" 2>&1 </dev/null &
    pid=$!
    while kill -0 "$pid" 2>/dev/null; do
        sleep 0.2
        if (((SECONDS - start) >= 20 && (SECONDS - start) % 20 == 0)); then
            printf '     %4d s  %s\n' $((SECONDS - start)) "$(tail -n 1 "$log" | tr -d '\r' | cut -c 1-100)"
            sleep 1
        fi
    done
    wait "$pid" || code=$?
    if ((code != 0)); then
        printf '   FAILED after %d s with exit code %d; the end of %s:\n' $((SECONDS - start)) "$code" "$log" >&2
        tail -n 40 "$log" | sed 's/^/   | /' >&2
    elif ((SECONDS - start >= 5)); then
        note "done in $((SECONDS - start)) s"
    fi
    return "$code"
}

# ---- Debian packages -----------------------------------------------------------------------------------------------

is_installed() { [ "$(dpkg-query -W -f='${db:Status-Status}' "$1" 2>/dev/null)" = installed ]; }

# Installs the packages that are missing, as root or through sudo; else says what to install.
install_packages() {
    local missing=() as_root=()
    if ! command -v dpkg-query apt-get >/dev/null; then
        require_tools "$@"
        return
    fi
    for package in "$@"; do is_installed "$package" || missing+=("$package"); done
    [ ${#missing[@]} -gt 0 ] || return 0
    if [ "$(id -u)" != 0 ]; then
        { command -v sudo >/dev/null && sudo -v; } ||
            fail "these packages are missing, and there is neither root nor sudo to install them. As root:" \
                "apt-get install ${missing[*]}"
        as_root=(sudo)
    fi
    note "missing: ${missing[*]}"
    # A package list that is at hand may do; otherwise it is fetched first.
    local install=("${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends "${missing[@]}")
    if ! run "apt-get install" apt-install "${install[@]}" 2>/dev/null; then
        run "apt-get update" apt-update "${as_root[@]}" apt-get update &&
            run "apt-get install" apt-install "${install[@]}" ||
            fail "apt-get could not install: ${missing[*]}" "Install them by hand and run this command again."
    fi
}

# On other distributions nothing is installed; the commands themselves tell what is missing.
require_tools() {
    local missing=()
    for tool in g++ cmake ninja make pkg-config python3; do command -v "$tool" >/dev/null || missing+=("$tool"); done
    [ ${#missing[@]} -eq 0 ] || fail "this is not a Debian or Ubuntu machine; please install what provides: ${missing[*]}" \
        "together with the counterparts of these Debian packages: $*"
}

build_packages=(g++ make cmake ninja-build pkg-config binutils libfmt-dev nlohmann-json3-dev libgtest-dev)

setup_build_tools() {
    heading "Build tools"
    install_packages "${build_packages[@]}" "$@"
    local version
    version=$(cmake --version | sed -n '1s/[^0-9]*//p')
    [ "$(printf '%s\n' 3.22 "$version" | sort -V | head -n 1)" = 3.22 ] ||
        fail "CMake $version is too old: 3.22 or newer is needed" "Debian 12 and Ubuntu 22.04 bring one that does."
    note "$(c++ --version | head -n 1), CMake $version, $JOBS jobs"
}

# ---- Python --------------------------------------------------------------------------------------------------------

# Whether the environment holds every package of constraints.txt in its version. "2.13.0+cpu" counts as 2.13.0.
python_is_ready() {
    [ -x "$PYTHON" ] && "$PYTHON" - "$ROOT/ci/constraints.txt" <<'PY'
import sys
from importlib.metadata import PackageNotFoundError, version

for line in open(sys.argv[1]):
    name, _, wanted = line.split("#")[0].strip().partition("==")
    try:
        if name and version(name).split("+")[0] != wanted:
            sys.exit(1)
    except PackageNotFoundError:
        sys.exit(1)
PY
}

pip_install() { "$PYTHON" -m pip install --disable-pip-version-check --no-input --constraint "$ROOT/ci/constraints.txt" "$@"; }

# Whether pip's choice for a requirement is a build without CUDA; only metadata is read, nothing is installed.
is_cpu_build() {
    local report=$BUILD/pip-report.json
    "$PYTHON" -m pip install --disable-pip-version-check --no-input --dry-run --no-deps --ignore-installed --quiet \
        --report "$report" "$1" >"$LOGS/pip-torch-choice.log" 2>&1 &&
        "$PYTHON" - "$report" <<'PY'
import json, sys

(package,) = json.load(open(sys.argv[1]))["install"]
needs = " ".join(package["metadata"].get("requires_dist", [])).lower()
sys.exit("nvidia" in needs or "cuda" in needs)
PY
}

# The CPU build has its own version text where several builds are on offer; elsewhere the plain version may be one.
install_torch() {
    local version=2.13.0 requirement
    if [ -n "${FUSION_TORCH:-}" ]; then
        requirement=$FUSION_TORCH
    elif is_cpu_build "torch==$version+cpu"; then
        requirement=torch==$version+cpu
    elif is_cpu_build "torch==$version"; then
        requirement=torch==$version
    else
        tail -n 3 "$LOGS/pip-torch-choice.log" | sed 's/^/   | /' >&2
        fail "pip finds no CPU build of torch $version for $("$PYTHON" --version). Set one of these and run again:" \
            "PIP_EXTRA_INDEX_URL  an index that offers torch $version+cpu (PyTorch's own index of CPU builds)" \
            "PIP_FIND_LINKS       a folder that holds the wheel" \
            "FUSION_TORCH         another requirement, as in FUSION_TORCH=torch==$version to take any build (several GB)"
    fi
    run "torch ($requirement)" pip-torch pip_install "$requirement"
}

# The pinned packages need Python 3.11 or newer; an older python3 is left alone and python3.11 installed beside it.
make_venv() {
    local usable='import ensurepip, sys, venv; sys.exit(sys.version_info < (3, 11))' python
    for python in "${FUSION_PYTHON:-}" python3.11 python3; do
        if [ -n "$python" ] && "$python" -c "$usable" 2>/dev/null; then break; fi
        python=
    done
    if [ -z "$python" ]; then
        python=python3
        install_packages python3 python3-venv
        if ! "$python" -c "$usable" 2>/dev/null; then
            python=python3.11
            install_packages python3.11 python3.11-venv
        fi
    fi
    run "virtual environment" venv "$python" -m venv "$VENV" ||
        fail "could not make a Python environment in $VENV with $python" "Set FUSION_PYTHON to another interpreter."
}

# With this the environment's Python finds what is installed in install/ without set_env.sh, which is easily forgotten; torch
# imports torch-npu, and would end in an error of the loader. Nothing is done as long as nothing is installed.
link_python_to_tree() {
    "$PYTHON" - "$PREFIX/python" <<'PY'
import os, sys, sysconfig

path = os.path.join(sysconfig.get_path("purelib"), "fusion_attention_tree.pth")
line = ("import os, sys; tree = {!r}; os.path.isdir(tree) and (tree in sys.path or sys.path.append(tree), "
        "__import__('npu_fallback.import_hook').import_hook.watch())\n").format(sys.argv[1])
if not os.path.exists(path) or open(path).read() != line:
    open(path, "w").write(line)
PY
}

setup_python() {
    heading "Python"
    if ! python_is_ready; then
        [ -x "$PYTHON" ] || make_venv
        # torch-npu is installed without its dependencies, so that nothing can replace the torch that was chosen.
        { install_torch &&
            run "test packages" pip-packages pip_install pytest hypothesis numpy pyyaml transformers wheel rich matplotlib &&
            run "torch-npu" pip-torch-npu pip_install --no-deps torch-npu &&
            python_is_ready; } ||
            fail "pip could not install the packages of ci/constraints.txt: it reaches no package index, or the index lacks a version (torch-npu has wheels for few Pythons; 3.11 is tested)."
    fi
    link_python_to_tree
    note "$("$PYTHON" --version) in $VENV with torch and torch-npu $(sed -n 's/^torch-npu==//p' "$ROOT/ci/constraints.txt")"
}

# ---- Building ------------------------------------------------------------------------------------------------------

# build_preset <preset> [targets...]: configures build/<preset>, with the options of CONFIGURE_OPTIONS, and builds.
CONFIGURE_OPTIONS=()
build_preset() {
    local preset=$1
    shift
    (cd "$ROOT" && run "configure $preset" "configure-$preset" cmake --preset "$preset" "-DFUSION_PYTHON=$PYTHON" "${CONFIGURE_OPTIONS[@]}") &&
        run "build $preset" "build-$preset" cmake --build "$BUILD/$preset" --parallel "$JOBS" ${1:+--target "$@"}
}

# Installs the release build into install/, from scratch, so that no file of an older version stays.
install_release() {
    rm -rf "$PREFIX"
    run "install into ${PREFIX#"$ROOT/"}/" install cmake --install "$BUILD/release"
}
