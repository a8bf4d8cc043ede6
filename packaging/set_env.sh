# Sets up a shell for the libraries of this folder:   source <folder>/set_env.sh      (bash or zsh)
# The folder may have been moved anywhere. Sourcing again, or sourcing that of another folder, puts that folder first.

if [ -n "${BASH_VERSION:-}" ]; then
    _fusion_script=${BASH_SOURCE[0]}
elif [ -n "${ZSH_VERSION:-}" ]; then
    eval '_fusion_script=${(%):-%x}' # inside eval, because other shells cannot read it
else
    echo "set_env.sh: only bash and zsh tell a sourced script where it is: source it from one of them" >&2
    return 1
fi
_fusion_home=$(CDPATH='' cd -- "$(dirname -- "$_fusion_script")" && pwd -P) || return 1

# Puts $2 in front of the path list named $1, once.
_fusion_prepend() {
    local list rest
    eval "list=\${$1:-}"
    # An empty entry would mean the current folder to the loader: none may arise here.
    rest=:$list:
    while [ "$rest" != "${rest/:"$2":/:}" ]; do rest=${rest/:"$2":/:}; done
    rest=${rest#:}
    rest=${rest%:}
    export "$1=$2${rest:+:$rest}"
}

export ASCEND_HOME_PATH=$_fusion_home
export ASCEND_TOOLKIT_HOME=$_fusion_home
export ASCEND_OPP_PATH=$_fusion_home/opp
_fusion_prepend LD_LIBRARY_PATH "$_fusion_home/lib64"
_fusion_prepend CMAKE_PREFIX_PATH "$_fusion_home"
_fusion_prepend PKG_CONFIG_PATH "$_fusion_home/lib64/pkgconfig"
# In the folder of a wheel there is none: its packages are in site-packages.
if [ -d "$_fusion_home/python" ]; then _fusion_prepend PYTHONPATH "$_fusion_home/python"; fi

# torch-npu's task queue has nothing to hide on a CPU, and after an error only mode 0 goes on working.
export TASK_QUEUE_ENABLE=${TASK_QUEUE_ENABLE:-0}

unset _fusion_script _fusion_home
unset -f _fusion_prepend
