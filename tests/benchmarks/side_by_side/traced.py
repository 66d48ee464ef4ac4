"""The path of a question: the functions that run until the answer, in the files of some packages.

It is what a reader opens to follow the question. A function counts once, by its qualified name and
with its lines up to its last statement; a function inside of it counts as well if it runs. The code
of modules and classes, which runs at import, does not count. Needs only Python.
"""

import sys
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from inspect import CO_OPTIMIZED
from pathlib import Path
from types import CodeType, FrameType
from typing import Any


class Tracer:
    """Records the functions of some packages.

    Args:
        packages: Names of top-level packages; each of them is installed.
    """

    def __init__(self, packages: Iterable[str]) -> None:
        self._folders = {
            folder: name
            for name in packages
            if (spec := find_spec(name)) is not None
            for folder in spec.submodule_search_locations or ()
        }
        self._file_names: dict[str, str | None] = {}
        self._functions: dict[tuple[str, str], CodeType] = {}

    @contextmanager
    def tracing(self) -> Iterator[None]:
        """Record the functions of this thread, and of the threads that begin meanwhile."""
        threading.settrace(self._called)
        sys.settrace(self._called)
        try:
            yield
        finally:
            sys.settrace(None)
            threading.settrace(None)  # type: ignore[arg-type]  # as sys.settrace

    def path(self) -> dict[str, Any]:
        """Return what was recorded.

        Returns:
            The number of `files` and of all their `lines`, of the `functions` that ran and of the
            `lines of functions`; and for each file in `listed` the names of its functions.
        """
        listed: dict[str, list[str]] = {}
        for file, function in self._functions:
            listed.setdefault(file, []).append(function)
        paths = {code.co_filename for code in self._functions.values()}
        return {
            "files": len(listed),
            "lines": sum(len(Path(each).read_text("utf-8").splitlines()) for each in paths),
            "functions": len(self._functions),
            "lines of functions": sum(map(_lines, self._functions.values())),
            "listed": listed,
        }

    def _called(self, frame: FrameType, event: str, _: object) -> None:
        code = frame.f_code
        if event == "call" and code.co_flags & CO_OPTIMIZED:  # neither a module nor a class
            file = self._name(code.co_filename)
            if file is not None:
                self._functions.setdefault((file, code.co_qualname), code)

    def _name(self, path: str) -> str | None:
        """Return a file's path from its package on; None for a file of another package."""
        if path not in self._file_names:
            known = [each for each in self._folders if Path(path).is_relative_to(each)]
            self._file_names[path] = (
                f"{self._folders[known[0]]}/{Path(path).relative_to(known[0]).as_posix()}"
                if known
                else None
            )
        return self._file_names[path]


def _lines(code: CodeType) -> int:
    """Return the number of lines of a function, from its `def` or its first decorator to its end."""
    lines = [line for _, _, line in code.co_lines() if line]
    return max(lines) - code.co_firstlineno + 1
