"""`dialect_of`: a dialect of this package by the name of its class, as a run file contains it."""

from collections.abc import Mapping
from typing import Any

from stage3_tools.dialects.native import NativeDialect
from stage3_tools.dialects.prompt import PromptDialect
from stage3_tools.dialects.protocol import Dialect


def dialect_of(name: str, settings: Mapping[str, Any]) -> Dialect | None:
    """Return the dialect of this class; None for a class of a program.

    Args:
        name: The name of the class.
        settings: Its settings. Others than those of the class are ignored.
    """
    if name == NativeDialect.__name__:
        return NativeDialect()
    if name != PromptDialect.__name__:
        return None
    known = {key: settings[key] for key in PromptDialect().settings if key in settings}
    return PromptDialect(**known)
