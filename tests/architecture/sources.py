"""The imports of a source, without running it."""

import ast
from collections.abc import Iterator
from functools import cache


@cache
def parse(source: str) -> ast.Module:
    return ast.parse(source)


@cache
def imports(source: str) -> list[tuple[str, bool]]:
    """Return the dotted name of each import, and whether it is inside a function."""
    return [*_imports(parse(source), inside=False)]


def _imports(node: ast.AST, inside: bool) -> Iterator[tuple[str, bool]]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.expr):  # contains no import
            continue
        if isinstance(child, ast.Import):
            yield from ((name.name, inside) for name in child.names)
        elif isinstance(child, ast.ImportFrom):
            module = "." * child.level + (child.module or "")
            yield from ((f"{module}.{name.name}", inside) for name in child.names)
        is_function = isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef)
        yield from _imports(child, inside or is_function)
