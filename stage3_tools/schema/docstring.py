"""Read a docstring: the text above its sections, and the description of each parameter.

Supports the Google, NumPy and Sphinx styles, through griffe. An invalid docstring does not prevent
a function from becoming a tool. Used by `signature`.
"""

import inspect
import warnings
from collections.abc import Callable
from typing import Any

from stage3_tools.schema.callables import undecorated

MAX_DOCSTRING = 20_000
"""Maximum number of characters read; parsing a megabyte can take minutes."""


def docstring_of(function: Callable[..., Any]) -> tuple[str, dict[str, str]]:
    """Return the text above the sections, and the descriptions of the parameters by name."""
    inner = undecorated(function)
    text = getattr(inner, "__doc__", None)
    if text is None:
        text = inspect.getdoc(inner)  # a method inherits the docstring of the one it overrides
    if not isinstance(text, str) or not text.strip():
        return "", {}
    text = inspect.cleandoc(text[:MAX_DOCSTRING])
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # griffe compiles texts in the position of a type
            return _sections(text)
    except Exception:  # an invalid docstring must not prevent the registration
        return text, {}


def _sections(text: str) -> tuple[str, dict[str, str]]:
    from griffe import Docstring, DocstringSectionKind, DocstringStyle, PerStyleOptions, parse_auto

    styles: list[DocstringStyle] = ["google", "numpy", "sphinx"]
    quiet = PerStyleOptions(
        google={"warnings": False}, numpy={"warnings": False}, sphinx={"warnings": False}
    )
    sections = parse_auto(
        Docstring(text), style_order=styles, default="google", per_style_options=quiet
    )
    parameter_kinds = (DocstringSectionKind.parameters, DocstringSectionKind.other_parameters)
    descriptions = {
        parameter.name: parameter.description
        for section in sections
        if section.kind in parameter_kinds
        for parameter in section.value
    }
    texts = (str(s.value) for s in sections if s.kind is DocstringSectionKind.text)
    return next(texts, ""), descriptions
