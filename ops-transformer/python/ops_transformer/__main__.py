"""The command line: see the package's text."""
import argparse
import os
import sys

from ops_transformer.home import home


def print_script():
    script = os.path.join(home(), "set_env.sh")
    if not os.path.exists(script):
        print(f"{script} is missing: install fusion_attention again", file=sys.stderr)
        return 1
    print(script)
    return 0


def run_doctor():
    from ops_transformer import doctor

    return doctor.run()


def main():
    parser = argparse.ArgumentParser(prog="python -m ops_transformer")
    commands = parser.add_subparsers(metavar="command", required=True)
    for name, function, text in [("doctor", run_doctor, "check that torch-npu can run here; exit code 1 if it cannot"),
                                 ("env", print_script, "print the path of set_env.sh, to be sourced by bash or zsh")]:
        commands.add_parser(name, help=text, description=text).set_defaults(function=function)
    return parser.parse_args().function()


if __name__ == "__main__":
    sys.exit(main())
