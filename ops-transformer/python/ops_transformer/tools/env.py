"""The place of set_env.sh, for shells that run other programs on the libraries."""
import os

from ops_transformer.home import home
from ops_transformer.tools import Fault

HELP = "print the path of set_env.sh, to be sourced by bash or zsh"


def add_arguments(parser):
    pass


def run(arguments):
    script = os.path.join(home(), "set_env.sh")
    if not os.path.exists(script):
        raise Fault(f"{script} is missing: install fusion_attention again")
    print(script)
    return 0
