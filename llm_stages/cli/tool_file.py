"""The tools of a Python file, for the commands with `--tools`.

Importing a file runs it. A file contains `Tool`s, functions with `@tool`, or a `ToolRegistry`. If
it has none of these, each public function of the file is a tool.
"""

import importlib.util
import inspect
import sys
from pathlib import Path
from types import ModuleType

from stage3_tools import (
    Registrable,
    RegistrationError,
    Tool,
    ToolRegistry,
)


class ToolFileError(Exception):
    """The tools of a file cannot be loaded; the text says why."""


def load_tools(path: Path | None) -> ToolRegistry:
    """Return the tools of a file; an empty registry for None.

    Raises:
        ToolFileError: The file is missing, fails, or contains no tools.
    """
    if path is None:
        return ToolRegistry()
    module = _import(path)
    values = [value for name, value in vars(module).items() if not name.startswith("_")]
    found: list[Registrable] = [value for value in values if isinstance(value, Tool)]
    for registry in values:
        if isinstance(registry, ToolRegistry):
            found += [each for each in registry if each not in found]
    found = found or [each for each in values if _is_own_function(each, module)]
    if not found:
        raise ToolFileError(f"{path} contains no tools. Put @tool above a function.")
    try:
        return ToolRegistry(*found)
    except RegistrationError as error:
        raise ToolFileError(f"{path}: {error}") from error


def _import(path: Path) -> ModuleType:
    if not path.is_file():
        raise ToolFileError(f"There is no file {path}.")
    spec = importlib.util.spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None:
        raise ToolFileError(f"{path} is not a Python file.")
    module = importlib.util.module_from_spec(spec)
    sys.modules.setdefault(path.stem, module)
    sys.path.insert(0, str(path.parent.resolve()))  # the file may import its neighbors
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        raise ToolFileError(f"{path} cannot be run: {type(error).__name__}: {error}") from error
    return module


def _is_own_function(value: object, module: ModuleType) -> bool:
    return inspect.isfunction(value) and value.__module__ == module.__name__
