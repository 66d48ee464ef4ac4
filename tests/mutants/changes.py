"""Small changes of a module's functions: each one could be a mistake that a test must notice.

The changes follow the operators of mutation testing tools: a deleted statement, another comparison,
a negated condition, a dropped operand, another number. They are made in the syntax tree, so the
line numbers stay those of the file. Texts, type hints, defaults and `raise` arguments are not
changed.
"""

import ast
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

COMPARISONS: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
}
OPERATORS: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.FloorDiv,
    ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult,
    ast.Mod: ast.Mult,
    ast.BitOr: ast.BitAnd,
    ast.BitAnd: ast.BitOr,
}
UNTESTED = {"__repr__", "__str__"}
"""Functions that produce texts for readers."""

SIMPLE = (ast.Assign, ast.AnnAssign, ast.AugAssign, ast.Expr, ast.Return, ast.Raise, ast.Delete)


@dataclass(frozen=True, eq=False)
class Mutant:
    """One change of a function.

    Attributes:
        path: The file, relative to the project.
        lines: The first and the last line of the changed statement, without the body of a block.
        operator: The kind of change.
        before: The statement; of a block, its first line.
        after: The changed statement.
    """

    path: str
    lines: tuple[int, int]
    operator: str
    before: str
    after: str
    _tree: ast.Module = field(repr=False)
    _place: "Place" = field(repr=False)
    _new: Any = field(repr=False)

    def compile(self, root: Path) -> Any:
        """Return the code of the changed module."""
        self._place.set(self._new)
        code = compile(ast.fix_missing_locations(self._tree), str(root / self.path), "exec")
        self._place.set(self._place.old)
        return code


class Place:
    """A field of a node, or an item of a field, that can be replaced."""

    def __init__(self, parent: ast.AST, name: str, index: int | None = None) -> None:
        self._parent, self._name, self._index = parent, name, index
        value = getattr(parent, name)
        self.old = value if index is None else value[index]

    def set(self, value: Any) -> None:
        """Replace the value."""
        if self._index is None:
            setattr(self._parent, self._name, value)
        else:
            getattr(self._parent, self._name)[self._index] = value


def mutants_of(root: Path, path: str) -> list[Mutant]:
    """Return all mutants of a file."""
    tree = ast.parse((root / path).read_text(encoding="utf-8"))
    return [
        mutant
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name not in UNTESTED
        for index in range(len(node.body))
        if not _is_text(node.body[index])
        for mutant in _changes(path, tree, Place(node, "body", index), node.body[index])
    ]


def _is_text(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)


def _changes(path: str, tree: ast.Module, place: Place, statement: ast.stmt) -> Iterator[Mutant]:
    """Yield the mutants of a statement, and of the statements in it, except functions."""
    if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return  # `mutants_of` finds them
    before = _first_line(statement)

    def mutant(operator: str, place: Place, new: Any) -> Iterator[Mutant]:
        place.set(new)
        after = _first_line(new if place.old is statement else statement)
        place.set(place.old)
        if after != before:
            yield Mutant(path, _lines(statement), operator, before, after, tree, place, new)

    for operator, new in _replacements(statement):
        yield from mutant(operator, place, new)
    if isinstance(statement, ast.If | ast.While):
        yield from mutant(
            "negate", Place(statement, "test"), ast.UnaryOp(ast.Not(), statement.test)
        )
    for name, value in ast.iter_fields(statement):
        if isinstance(statement, ast.Raise) or name in ("annotation", "target", "targets"):
            continue
        if isinstance(value, ast.expr):
            for operator, inner, new in _of_expression(Place(statement, name)):
                yield from mutant(operator, inner, new)
        for index, each in enumerate(value if isinstance(value, list) else ()):
            if isinstance(each, ast.stmt) and not _is_text(each):
                yield from _changes(path, tree, Place(statement, name, index), each)
            elif isinstance(each, ast.ExceptHandler | ast.match_case):
                for number, part in enumerate(each.body):
                    yield from _changes(path, tree, Place(each, "body", number), part)
    if isinstance(statement, ast.For | ast.AsyncFor):
        yield from mutant("no iteration", Place(statement, "iter"), ast.Tuple([], ast.Load()))


def _replacements(statement: ast.stmt) -> Iterator[tuple[str, ast.stmt]]:
    """Yield other statements for a statement."""
    match statement:
        case ast.Return(value=ast.Constant(value=None)) | ast.Return(value=None):
            yield "delete", ast.copy_location(ast.Pass(), statement)
        case ast.Return():
            nothing = ast.Return(ast.Constant(None))
            yield "return None", ast.copy_location(nothing, statement)
        case ast.Break():
            yield "continue", ast.copy_location(ast.Continue(), statement)
        case ast.Continue():
            yield "break", ast.copy_location(ast.Break(), statement)
        case ast.Expr() | ast.AugAssign() | ast.Raise() | ast.Delete():
            yield "delete", ast.copy_location(ast.Pass(), statement)
        case ast.Assign(targets=[ast.Attribute() | ast.Subscript()]):
            yield "delete", ast.copy_location(ast.Pass(), statement)


def _of_expression(place: Place) -> Iterator[tuple[str, Place, ast.AST]]:
    """Yield the changes of an expression and of its parts."""
    node = place.old
    if isinstance(node, ast.JoinedStr | ast.Lambda):
        return
    yield from ((operator, place, new) for operator, new in _other_expressions(node))
    for name, value in ast.iter_fields(node):
        if isinstance(value, ast.expr):
            is_condition = name == "test"
            if is_condition:
                yield "negate", Place(node, name), ast.UnaryOp(ast.Not(), value)
            yield from _of_expression(Place(node, name))
        for index, each in enumerate(value if isinstance(value, list) else ()):
            if isinstance(each, ast.expr):
                yield from _of_expression(Place(node, name, index))
            elif isinstance(each, ast.keyword):
                yield from _of_expression(Place(each, "value"))
            elif isinstance(each, ast.comprehension):
                yield from _of_expression(Place(each, "iter"))
                for number, condition in enumerate(each.ifs):
                    where = Place(each, "ifs", number)
                    yield "negate", where, ast.UnaryOp(ast.Not(), condition)
                    yield from _of_expression(where)


def _other_expressions(node: ast.expr) -> Iterator[tuple[str, ast.expr]]:
    """Yield other expressions for an expression."""
    match node:
        case ast.BoolOp(op=op, values=values):
            other = ast.Or() if isinstance(op, ast.And) else ast.And()
            yield "and/or", ast.BoolOp(other, values)
            for index in range(len(values)):
                left = values[:index] + values[index + 1 :]
                yield "drop operand", left[0] if len(left) == 1 else ast.BoolOp(op, left)
        case ast.Compare(left=first, ops=[op, *ops], comparators=others):
            yield "compare", ast.Compare(first, [COMPARISONS[type(op)](), *ops], others)
        case ast.BinOp(left=left, op=op, right=right) if type(op) in OPERATORS:
            yield "operator", ast.BinOp(left, OPERATORS[type(op)](), right)
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            yield "drop not", operand
        case ast.Constant(value=bool() as value):
            yield "constant", ast.Constant(not value)
        case ast.Constant(value=int() as value):
            yield "constant", ast.Constant(value + 1)
        case ast.IfExp(test=test, body=body, orelse=orelse):
            yield "negate", ast.IfExp(test, orelse, body)
        case ast.Call(func=func, args=args, keywords=keywords):
            for index in range(len(keywords)):
                yield "drop keyword", ast.Call(func, args, keywords[:index] + keywords[index + 1 :])


def _first_line(statement: ast.stmt) -> str:
    text = ast.unparse(ast.fix_missing_locations(statement))
    return text if isinstance(statement, SIMPLE) else text.partition("\n")[0]


def _lines(statement: ast.stmt) -> tuple[int, int]:
    body = getattr(statement, "body", None)
    last = body[0].lineno - 1 if body else statement.end_lineno or statement.lineno
    return statement.lineno, max(statement.lineno, last)
