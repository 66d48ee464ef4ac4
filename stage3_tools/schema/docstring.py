"""What a docstring says: the text above its sections, and a line for each parameter.

Google, NumPy and Sphinx style, through griffe. A docstring may hold anything; none keeps a function
from becoming a tool. Used by `signature`.
"""

import inspect
import warnings
from collections.abc import Callable
from typing import Any

from stage3_tools.schema.callables import plain

MOST_DOCSTRING = 20_000
"""Characters of a docstring that are read; to take a megabyte apart can need minutes."""


def docstring_of(function: Callable[..., Any]) -> tuple[str, dict[str, str]]:
    """The text above the sections, and what is said of each parameter."""
    below = plain(function)
    text = getattr(below, "__doc__", None)
    if text is None:
        text = inspect.getdoc(below)  # a method may have that of the one it replaces
    if not isinstance(text, str) or not text.strip():
        return "", {}
    text = inspect.cleandoc(text[:MOST_DOCSTRING])
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # what stands where a type may stand is compiled
            return _sections(text)
    except Exception:  # no text may keep a function from becoming a tool
        return text, {}


def _sections(text: str) -> tuple[str, dict[str, str]]:
    from griffe import Docstring, DocstringSectionKind, DocstringStyle, PerStyleOptions, parse_auto

    named = (DocstringSectionKind.parameters, DocstringSectionKind.other_parameters)
    styles: list[DocstringStyle] = ["google", "numpy", "sphinx"]
    quiet = PerStyleOptions(
        google={"warnings": False}, numpy={"warnings": False}, sphinx={"warnings": False}
    )
    sections = parse_auto(
        Docstring(text), style_order=styles, default="google", per_style_options=quiet
    )
    about = {
        each.name: each.description
        for section in sections
        if section.kind in named
        for each in section.value
    }
    texts = (str(s.value) for s in sections if s.kind is DocstringSectionKind.text)
    return next(texts, ""), about
