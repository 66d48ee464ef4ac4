"""Where the complete stage handles a case: `path::name` as a file and a line."""

import ast
import functools
from pathlib import Path

ROOT = Path(__file__).parents[2]


def line_of(code: str) -> int:
    """Return the line of a function, a class or a method, such as "a/b.py::Class.method".

    Raises:
        LookupError: The file or the name does not exist.
    """
    path, _, name = code.partition("::")
    node: ast.AST = syntax_tree(path)
    for part in name.split("."):
        node = defined(node, part, code)
    line: int = getattr(node, "lineno", 1)
    return line


@functools.cache
def syntax_tree(path: str) -> ast.Module:
    """Return the syntax tree of a file of the complete stages."""
    if not (ROOT / path).is_file():
        raise LookupError(f"There is no file {path}.")
    return ast.parse((ROOT / path).read_text(encoding="utf-8"))


def defined(parent: ast.AST, name: str, code: str) -> ast.AST:
    """Return the definition of a name in a module or a class."""
    for node in getattr(parent, "body", []):
        if getattr(node, "name", None) == name:
            found: ast.AST = node
            return found
    raise LookupError(f"{code} does not exist.")
