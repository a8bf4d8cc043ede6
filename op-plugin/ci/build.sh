#!/usr/bin/env bash
# Builds the plug-in as a wheel in dist/, against the torch and torch-npu that are installed:
#
#   bash ci/build.sh --python=3.11 --pytorch=2.13.0
#
#   --python   version of the interpreter
#   --pytorch  version of torch and torch-npu; also in op-plugin's form v2.13.0-<branch>
#
# The interpreter is that of the active virtual environment, else of FUSION_VENV, else of .venv in the repository (ci/setup.sh
# makes it), else python<version>: the first one that has the version. Nothing is downloaded.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

supported_python=3.11
supported_pytorch=2.13.0

fail() {
    printf 'error: %s\n' "$@" >&2
    exit 1
}

usage="usage: bash ci/build.sh --python=$supported_python --pytorch=$supported_pytorch"
python_version=
pytorch_version=
for argument in "$@"; do
    case $argument in
        --python=*) python_version=${argument#*=} ;;
        --pytorch=*) pytorch_version=${argument#*=} ;;
        *) fail "unknown argument $argument" "$usage" ;;
    esac
done
[ -n "$python_version" ] && [ -n "$pytorch_version" ] || fail "--python and --pytorch are both needed" "$usage"

[ "$python_version" = "$supported_python" ] ||
    fail "Python $python_version is not supported. Supported: $supported_python"
plain_version=${pytorch_version#v}
plain_version=${plain_version%%-*}
[ "$plain_version" = "$supported_pytorch" ] ||
    fail "PyTorch $pytorch_version is not supported. Supported: $supported_pytorch (also v$supported_pytorch-<branch>)"

python=
for candidate in "${VIRTUAL_ENV:-}/bin/python" "${FUSION_VENV:-}/bin/python" ../.venv/bin/python "python$python_version"; do
    found=$("$candidate" -c 'import sys; print("%d.%d" % sys.version_info[:2])' 2>/dev/null) || continue
    if [ "$found" = "$python_version" ]; then
        python=$candidate
        break
    fi
done
[ -n "$python" ] || fail "no Python $python_version found: activate a virtual environment that has it"

"$python" - "$supported_pytorch" <<'PY'
import sys
from importlib.metadata import PackageNotFoundError, version

wanted = sys.argv[1]
problems = []
for name, needed in (("torch", wanted), ("torch-npu", wanted), ("setuptools", ""), ("pyyaml", ""), ("pip", "")):
    try:
        found = version(name)
    except PackageNotFoundError:
        found = "not installed"
    if found == "not installed" or (needed and found.split("+")[0] != needed):
        problems.append(f"{name} {needed}".strip() + f" is needed in {sys.prefix}, but it is {found}")
sys.exit("".join(f"error: {problem}\n" for problem in problems).rstrip() or 0)
PY
command -v c++ >/dev/null || fail "no C++ compiler found: install g++ (version 11 or newer)"

rm -f dist/fusion_attention_op_plugin-*.whl
# Without isolation: the extension has to be compiled against the torch-npu that will load it.
"$python" -m pip --disable-pip-version-check --no-cache-dir wheel . --no-build-isolation --no-deps --no-index --wheel-dir dist
printf '\nbuilt %s\ninstall it with:  %s -m pip install --no-deps --force-reinstall dist/%s\n' dist/*.whl "$python" \
    "$(basename dist/*.whl)"
