"""`Subject`: what is graded, as a set of operations.

A subject has one of three forms:

    a file of the course        a copy of a starter file; `course.py` calls its functions
    a Python file               with a dictionary OPERATIONS: the operation's name, and its function
    a program of any language   JSON lines on stdin and stdout; see `program.py`

An operation receives JSON values and returns one. It may be a plain or an async function. It reports
an expected error by raising an exception with an attribute `kind`; any other exception is a crash.
"""

import ast
import asyncio
import functools
import inspect
import sys
import sysconfig
import traceback
from collections.abc import Callable, Iterator, Mapping, Set
from dataclasses import dataclass, field
from json import dumps, loads  # by name, because a file may replace the functions of json
from pathlib import Path
from types import ModuleType
from typing import Any

from tests.conformance.surroundings import PARTS, EndlessRun, Failure

Operation = Callable[..., Any]


@dataclass
class Subject:
    """Something that can be graded.

    Attributes:
        name: The name in reports, such as that of the file.
        operations: The functions by the name of their operation.
        unwritten: The functions that the learner has not written yet, by step.
    """

    name: str
    operations: Mapping[str, Operation]
    unwritten: dict[int, list[str]] = field(default_factory=dict)
    prepared_parts: Set[str] = PARTS
    needs_time_limit: bool = True
    defect: str = ""

    async def start(self) -> None:
        """Do nothing: the functions are loaded."""

    async def finish(self) -> None:
        """Do nothing."""

    async def stop(self) -> None:
        """Do nothing."""

    async def perform(self, operation: str, arguments: dict[str, Any]) -> dict[str, Any]:
        """Call an operation, and return its outcome as a JSON object.

        The outcome has the field `error` with a `kind` for an expected error, and `crash` for any
        other exception. The kind is "unsupported" if the subject does not have the operation, or
        not with these arguments. A value that is not an object is in the field `value`.
        """
        try:
            value = self._supported(operation, arguments)(**arguments)
            if inspect.isawaitable(value):
                value = await value
            value = json_value(operation, value)
        except (asyncio.CancelledError, KeyboardInterrupt):
            raise
        except EndlessRun as error:
            return {"crash": f"It does not stop: {error}."}
        except BaseException as error:
            return error_outcome(error)
        return value if isinstance(value, dict) else {"value": value}

    def _supported(self, operation: str, arguments: dict[str, Any]) -> Operation:
        """Return the function of an operation; the error is "unsupported" if it lacks something."""
        if operation not in self.operations:
            raise Failure("unsupported", f"There is no operation {operation!r}.")
        function = self.operations[operation]
        parameters = inspect.signature(function).parameters
        takes_all = any(each.kind is each.VAR_KEYWORD for each in parameters.values())
        unknown = [name for name in arguments if name not in parameters]
        if unknown and not takes_all:
            raise Failure("unsupported", f"{operation} has no argument {', '.join(unknown)}.")
        return function


def json_value(operation: str, value: Any) -> Any:
    """Return a copy of the value of an operation.

    Raises:
        TypeError: A part of it is not a JSON value, such as a generator.
    """
    for place, part in parts_of_value(value):
        if not isinstance(part, str | int | float | dict | list | tuple | None):
            kind = type(part).__name__
            raise TypeError(
                f"{operation}: the value{place and ' at ' + place} is a {kind}, which is not a JSON"
                " value. Return a list, a dictionary, a text, a number, a Boolean or None."
            )
    return loads(dumps(value))


def parts_of_value(value: Any, place: str = "") -> Iterator[tuple[str, Any]]:
    """Yield a value and the first two levels of its parts, each with its JSON pointer."""
    yield place, value
    if place.count("/") < 2 and isinstance(value, dict | list | tuple):
        named = value.items() if isinstance(value, dict) else enumerate(value)
        for name, part in named:
            yield from parts_of_value(part, f"{place}/{name}")


def error_outcome(error: BaseException) -> dict[str, Any]:
    """The outcome of an operation that raised an error."""
    kind = getattr(error, "kind", None)
    if isinstance(kind, str) and isinstance(error, Exception):
        return {"error": {"kind": kind, "message": str(error)}}
    return {"crash": described_error(error)}


def described_error(error: BaseException) -> str:
    """An error in words: its type, its text, and its last line in the file of the subject."""
    text = f"{type(error).__name__}: {str(error)[:300]}".removesuffix(": ")
    if isinstance(error, SystemExit):
        text = f"It ends the program: sys.exit({error.code!r})"
    return text + place_of(error)


class SubjectError(Exception):
    """The subject cannot be loaded; the text states the reason."""


def syntax_tree(path: Path) -> ast.Module:
    """Return the syntax tree of a Python file.

    Raises:
        SubjectError: The file cannot be read, or has a syntax error.
    """
    try:
        return tree_of(path.read_text(encoding="utf-8"))
    except SyntaxError as error:
        raise SubjectError(f"{path.name}, line {error.lineno}: {error.msg}") from error
    except (OSError, ValueError) as error:
        raise SubjectError(f"{path} cannot be read: {error}") from error


@functools.lru_cache(maxsize=16)
def tree_of(text: str) -> ast.Module:
    """Return the syntax tree of a text; a starter and a finished file are parsed once."""
    return ast.parse(text)


def load_module(path: Path, name: str = "") -> ModuleType:
    """Import a Python file.

    Raises:
        SubjectError: The file does not exist, or cannot be imported.
    """
    if not path.is_file():
        raise SubjectError(f"There is no file {path}.")
    module = ModuleType(name or f"subject_{path.stem}")
    module.__file__ = str(path)
    sys.modules[module.__name__] = module  # dataclasses look their module up
    try:  # without the bytecode cache, which misses two changes within a second
        exec(compile(path.read_bytes(), path, "exec"), vars(module))
    except SyntaxError as error:
        raise SubjectError(f"{path.name}, line {error.lineno}: {error.msg}") from error
    except BaseException as error:
        raise SubjectError(f"{path.name} cannot be imported: {described_error(error)}") from error
    return module


def place_of(error: BaseException) -> str:
    """The last line of a subject's own code that an error passed, in words."""
    others = [str(Path(__file__).parent), *map(sysconfig.get_path, ("stdlib", "purelib"))]
    lines = [
        frame
        for frame in traceback.extract_tb(error.__traceback__)
        if Path(frame.filename).is_file() and not frame.filename.startswith(tuple(others))
    ]
    if not lines:
        return ""
    last = lines[-1]
    return f" ({described_place(Path(last.filename), last.lineno or 0, last.name)})"


def described_place(path: Path, line: int, function: str) -> str:
    """A line of a file, with its function."""
    inside = "" if function.startswith("<") else f", in {function}"
    return f"{path.name}, line {line}{inside}"
