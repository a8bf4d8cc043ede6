#!/usr/bin/env bash
# Runs the example with the tree that `bash ci/demo.sh` installed, or with what the shell has set up already.
#
#   bash run.sh [--device npu] [--dtype bf16]    checks that the three attentions agree
#   bash run.sh --table                          measures, some minutes; writes results.json, results.png and README.md
#   bash run.sh --report                         writes the last two again from results.json
#
# PYTHON: the interpreter; by default the one of .venv at the top of the repository, else python3.
set -euo pipefail
folder=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
top=$folder/../../..
if [ -z "${ASCEND_HOME_PATH:-}" ] && [ -f "$top/install/set_env.sh" ]; then source "$top/install/set_env.sh"; fi
if [ -z "${PYTHON:-}" ]; then
    PYTHON=python3
    if [ -x "$top/.venv/bin/python" ]; then PYTHON=$top/.venv/bin/python; fi
fi
exec "$PYTHON" "$folder/run.py" "$@"
