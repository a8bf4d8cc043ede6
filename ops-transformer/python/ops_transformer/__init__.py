"""Fusion Attention for Python: what torch-npu finds in place of an Ascend toolkit, and a checker of the set-up.

    python -m ops_transformer doctor    says whether torch-npu can run here, and if not, what to do
    python -m ops_transformer env       prints the path of set_env.sh, for shells that run other programs on the libraries
"""
