"""The names that our acl headers define, read from the headers themselves.

The headers are plain C written in one style, so a few regular expressions are a sufficient parser; count_check() guards
against a construct that they do not know and would lose silently.
"""
import dataclasses
import pathlib
import re


@dataclasses.dataclass
class Names:
    values: list = dataclasses.field(default_factory=list)  # enumerators, constants, macros with a value
    types: list = dataclasses.field(default_factory=list)  # complete types and typedefs: sizeof and typeid
    members: list = dataclasses.field(default_factory=list)  # (type, member)
    functions: list = dataclasses.field(default_factory=list)


def strip_comments(text):
    text = re.sub(r"//[^\n]*", "", text)
    return re.sub(r"/\*.*?\*/", "", text, flags=re.S)


def members_of(body):
    """Names declared in the body of a struct or union."""
    return re.findall(r"(\w+)\s*(?:\[[^\]]*\])?\s*;", body)


def parse(text, names):
    text = strip_comments(text)
    # Macros with a value; guards have none, function-like macros are no values.
    names.values += re.findall(r"^#define (ACL_\w+) +(?!__attribute__)\S", text, flags=re.M)
    text = re.sub(r"^\s*#.*$", "", text, flags=re.M)
    names.values += re.findall(r"static const \w+ (\w+) =", text)
    for body, name in re.findall(r"typedef enum\s*\w*\s*\{(.*?)\}\s*(\w+)\s*;", text, flags=re.S):
        names.types.append(name)
        names.values += re.findall(r"(\w+)\s*=", body)
    for body, name in re.findall(r"typedef (?:struct|union)\s*\w*\s*\{(.*?)\}\s*(\w+)\s*;", text, flags=re.S):
        names.types.append(name)
        names.members += [(name, member) for member in members_of(body)]
    text = re.sub(r"typedef (?:enum|struct|union)\s*\w*\s*\{.*?\}\s*\w+\s*;", "", text, flags=re.S)
    names.types += re.findall(r"typedef [^;]*\(\*(\w+)\)\([^;]*\)\s*;", text)
    # Incomplete structures have no size; that they are the same types shows in the prototypes.
    names.types += re.findall(r"typedef (?!struct)[\w ]+?\*?\s*(\w+)\s*;", text)
    names.functions += re.findall(r"ACL_FUNC_VISIBILITY\s+[^;(]*?(\w+)\s*\(", text)


def count_check(text, names):
    """Fails when a header declares something that parse() did not see."""
    text = strip_comments(text)
    seen = set(names.values) | set(names.types) | set(names.functions)
    for name in re.findall(r"\b(ACL_\w+|acl\w+)\b(?=\s*(?:=|\())", text):
        if name not in seen and name not in ("ACL_APP_LOG",):
            raise SystemExit(f"header_names.py does not understand the declaration of {name}")


def names_of(include_dir):
    names = Names()
    headers = sorted(pathlib.Path(include_dir).glob("acl/**/*.h"))
    for header in headers:
        parse(header.read_text(), names)
    for header in headers:
        count_check(header.read_text(), names)
    return names
