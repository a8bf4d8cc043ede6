"""The command line: one module a command, imported only when it is used or listed."""
import argparse
import importlib
import os
import sys

from ops_transformer.tools import Fault, WrongArguments

COMMANDS = {
    "info": "ops_transformer.tools.info",
    "mask": "ops_transformer.tools.mask",
    "verify": "ops_transformer.tools.verify",
    "bench": "ops_transformer.tools.bench",
    "doctor": "ops_transformer.doctor",
    "env": "ops_transformer.tools.env",
}


class Parser(argparse.ArgumentParser):
    def error(self, message):
        self.exit(2, f"error: {message}; {self.prog} --help says more\n")


def make_parser(names):
    """Of some commands: the others' modules need not be imported."""
    parser = Parser(prog="python -m ops_transformer", description="Tools of Fusion Attention.")
    commands = parser.add_subparsers(metavar="command", required=True)
    for name in names:
        module = importlib.import_module(COMMANDS[name])
        command = commands.add_parser(name, help=module.HELP, description=module.__doc__,
                                      formatter_class=argparse.RawDescriptionHelpFormatter)
        module.add_arguments(command)
        command.set_defaults(run=module.run)
    return parser


def main(words=None):
    words = sys.argv[1:] if words is None else words
    asked = [words[0]] if words and words[0] in COMMANDS else COMMANDS
    arguments = make_parser(asked).parse_args(words)
    try:
        return arguments.run(arguments)
    except WrongArguments as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    except Fault as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:  # whoever read has seen enough, as `head` does
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 141


if __name__ == "__main__":
    sys.exit(main())
