"""The imports of a source, without running it."""

import ast
from collections.abc import Iterator
from functools import cache


@cache
def parse(source: str) -> ast.Module:
    return ast.parse(source)


@cache
def imports(source: str) -> list[tuple[str, bool]]:
    """Return the dotted name of each import, and whether it is inside a function.

    After `import stage3_tools as stage3`, each use of `stage3.name` counts as an import of the name.
    """
    tree = parse(source)
    return [*_imports(tree, inside=False), *_uses(tree)]


def _uses(tree: ast.Module) -> Iterator[tuple[str, bool]]:
    names = [each for node in ast.walk(tree) if isinstance(node, ast.Import) for each in node.names]
    modules = {each.asname: each.name for each in names if each.asname}
    for node in ast.walk(tree):
        owner = getattr(node, "value", None) if isinstance(node, ast.Attribute) else None
        if isinstance(owner, ast.Name) and owner.id in modules:
            yield f"{modules[owner.id]}.{node.attr}", False


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
