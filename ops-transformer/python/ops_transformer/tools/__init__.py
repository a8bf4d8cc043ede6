"""The command line tools, one a module, each with HELP (a line), add_arguments(parser) and run(arguments), which returns the
exit code. Nothing heavy is imported before run()."""


class WrongArguments(Exception):
    """What the user asked for cannot be: the text names option, value and rule. Exit code 2."""


class Fault(Exception):
    """Something that should be there or work does not: the text says what to do about it. Exit code 1."""
