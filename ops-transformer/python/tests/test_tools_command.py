"""python -m ops_transformer: commands, options, errors on one line, and what is not imported."""
import re

import pytest

COMMANDS = ["info", "mask", "verify", "bench", "doctor", "env"]


def test_help_lists_the_commands(run_tool):
    listed = re.findall(r"^    (\w+) ", run_tool("--help").stdout, re.MULTILINE)
    assert listed == COMMANDS


@pytest.mark.parametrize("command", COMMANDS)
def test_help_of_a_command(run_tool, command):
    assert run_tool(command, "--help").stdout.startswith(f"usage: python -m ops_transformer {command}")


@pytest.mark.parametrize("words, part", [
    ([], "command"),
    (["masks"], "masks"),
    (["info", "--colour"], "--colour"),
    (["mask", "--queries", "many"], "many"),
    (["verify", "--seed"], "--seed"),
])
def test_wrong_words(run_tool, words, part):
    """One line that names what is wrong, and nothing else."""
    done = run_tool(*words, code=2)
    assert done.stdout == ""
    assert re.fullmatch(rf"error: .*{part}.*; python -m ops_transformer.* --help says more\n", done.stderr), done.stderr


def test_nothing_heavy_is_imported(run_python):
    """The checker works without torch, and help comes at once."""
    done = run_python("""
        import sys
        from ops_transformer.__main__ import COMMANDS, make_parser
        make_parser(COMMANDS)
        print([name for name in ("torch", "numpy", "matplotlib", "rich") if name in sys.modules])
        """)
    assert done.stdout.strip() == "[]"


def test_one_command_imports_one_module(run_python):
    done = run_python("""
        import sys
        from ops_transformer.__main__ import COMMANDS, main
        main(["env"])
        print([name for name, module in COMMANDS.items() if module in sys.modules])
        """)
    assert done.stdout.splitlines()[-1] == "['env']"
