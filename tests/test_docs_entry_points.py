"""docs/entry_points.md lists the functions and arguments that the headers declare."""

import re

import pytest

# For each direction: its header, the first phase that gives a bound, the operator whose arguments that has, and how many
# arguments at the end of the first phase are the same in all versions.
DIRECTIONS = {
    "forward": ("aclnn_flash_attention_score.h", "aclnnFlashAttentionVarLenScoreV5GetMaxWorkspaceSize",
                "aclnnFlashAttentionVarLenScoreV5", 6),
    "backward": ("aclnn_flash_attention_score_grad.h", "aclnnFlashAttentionUnpaddingScoreGradV5GetMaxWorkspaceSize",
                 "aclnnFlashAttentionUnpaddingScoreGradV5", 2),
}
FOLDER = "ops-transformer/include/aclnnop"
OTHER_HEADERS = ["aclnn_dropout_gen_mask.h", "aclnn_ring_attention_update.h"]
PHASE_ONE = "GetWorkspaceSize"
PHASE_TWO = [("void*", "workspace"), ("uint64_t", "workspaceSize"), ("aclOpExecutor*", "executor"),
             ("const aclrtStream", "stream")]


@pytest.fixture(scope="module", params=DIRECTIONS)
def direction(request):
    return request.param


@pytest.fixture(scope="module")
def bound(direction):
    return DIRECTIONS[direction][1]


def read_functions(path):
    """For each function of the header its arguments as (type, name), in order."""
    text = re.sub(r"//.*", "", path.read_text(encoding="utf-8"))
    found = re.findall(r"ACL_FUNC_VISIBILITY\s+aclnnStatus\s+(\w+)\(([^)]*)\)", text)
    split = re.compile(r"(.*?)\s*(\w+)", re.DOTALL)
    return {name: [split.fullmatch(argument.strip()).groups() for argument in arguments.split(",")]
            for name, arguments in found}


@pytest.fixture(scope="module")
def functions(run, direction):
    return read_functions(run.ROOT / FOLDER / DIRECTIONS[direction][0])


@pytest.fixture(scope="module")
def operators(functions, bound):
    """Name of the operator -> arguments of its first phase."""
    return {name.removesuffix(PHASE_ONE): arguments for name, arguments in functions.items()
            if name.endswith(PHASE_ONE) and name != bound}


def read_tables(run, chapter):
    """The tables of a chapter of the page: each a list of rows, each a list of cells."""
    text = (run.ROOT / "docs/entry_points.md").read_text(encoding="utf-8")
    (text,) = re.findall(rf"^## {chapter}\n((?:(?!## ).*\n)*)", text, re.MULTILINE)
    blocks = re.findall(r"(?:^\|.*\n)+", text, re.MULTILINE)
    return [[[cell.strip() for cell in line.strip("|").split("|")] for line in block.splitlines() if "|---" not in line]
            for block in blocks]


@pytest.fixture(scope="module")
def tables(run, direction):
    return read_tables(run, direction.capitalize())


def matrix(operators):
    """What the matrix of arguments has to be: for each argument its type and its place in each operator's list."""
    order = []
    for arguments in sorted(operators.values(), key=len, reverse=True):  # the longest list gives the order of the rows
        for place, argument in enumerate(arguments):
            if argument not in order:
                before = order.index(arguments[place - 1]) + 1 if place else 0
                order.insert(before, argument)
    rows = []
    for argument in order:
        places = [arguments.index(argument) + 1 if argument in arguments else "" for arguments in operators.values()]
        kind, name = argument
        rows.append([f"`{name}`", f"`{kind}`", *map(str, places)])
    return rows


def test_every_function_is_listed(functions, operators, tables, bound):
    listed = [re.findall(r"`(\w+)`", row[0])[0] for row in tables[0][1:]]
    assert listed == [*operators, bound]
    assert set(functions) == {name + phase for name in operators for phase in (PHASE_ONE, "")} | {bound}


def test_arguments(operators, tables):
    (table,) = [table for table in tables if table[0][:2] == ["argument", "type"]]
    assert table[0][2:] == [re.sub(r"aclnnFlashAttention|.*(?=V\d)", "", name) for name in operators]
    expected = matrix(operators)
    assert len(expected) > 30
    text = "\n".join("| " + " | ".join(row).replace("|  ", "| ") + " |" for row in expected)
    assert table[1:] == expected, f"the rows should be\n{text}"


def test_phases_are_alike(functions, operators, direction, bound):
    """What the page says without a table: all second phases are alike, and all first ones end in the same way."""
    _, _, largest, same = DIRECTIONS[direction]
    assert all(functions[name] == PHASE_TWO for name in operators)
    ends = {tuple(arguments[-same:]) for arguments in operators.values()}
    assert len(ends) == 1
    assert functions[bound] == operators[largest]


def test_other_operators(run):
    """A table of the page has the operators of the other headers, each with both phases and the arguments that it names."""
    others = {}
    for header in OTHER_HEADERS:
        others |= read_functions(run.ROOT / FOLDER / header)
    (table,) = read_tables(run, "Dropout masks and the ring update")
    names = [re.fullmatch(r"`(\w+)`", row[0])[1] for row in table[1:]]
    assert names == [name.removesuffix(PHASE_ONE) for name in others if name.endswith(PHASE_ONE)]
    assert set(others) == {name + phase for name in names for phase in (PHASE_ONE, "")}
    for name, row in zip(names, table[1:], strict=True):
        assert others[name] == PHASE_TWO
        assert re.findall(r"`(\w+)`", row[1]) == [argument for _, argument in others[name + PHASE_ONE][:-2]]
        assert [argument for _, argument in others[name + PHASE_ONE][-2:]] == ["workspaceSize", "executor"]
