"""Find arguments that a model wrote under another key than `arguments`.

    {"tool": "delete_logs", "args": {"days": 30}}     a synonym or a misspelling of "arguments"
    {"tool": "delete_logs", "days": 30}               a parameter of the tool beside "tool"

Without this rule the tool would run with its defaults. Other keys beside `arguments` are remarks.
Used by `decision.py`.
"""

import re
from collections.abc import Collection, Iterator, Mapping
from typing import Any

from stage2_output import Issue, nearest

RULE = "arguments_key"
"""The rule of the issues."""

_KEYS = ("tool", "arguments", "reply")
_REMARKS = re.compile(
    r"think(?:ing)?|thoughts?|reason(?:s|ing)?|rationale|reflections?|analysis|explanations?"
    r"|justifications?|comments?|remarks?|notes?|plan|confidence"
)
_SYNONYMS = re.compile(
    r"(?:tool|function|action|call)?(?:kw)?(?:args?|arguments?|param(?:eter)?s?|inputs?)"
)
_SEPARATORS = re.compile(r"[\s_.-]+")


def misplaced_arguments(
    decision: Mapping[str, Any], parameters: Collection[str], path: str = ""
) -> Iterator[Issue]:
    """Yield an issue for each key that may contain arguments.

    Args:
        decision: A decision that names a tool.
        parameters: The names of the tool's parameters, as far as they are known.
        path: The JSON pointer of the decision.
    """
    has_arguments = decision.get("arguments") is not None
    names = {name.lower() for name in parameters}
    for key in decision:
        if key in _KEYS:
            continue
        pointer = f"{path}/{key}"
        if key.lower() in names:
            hint = f'write it into the arguments: {{"arguments": {{"{key}": …}}}}'
            yield Issue(pointer, "belongs into `arguments`", RULE, hint=hint)
        elif _is_like_arguments(key):
            yield Issue(pointer, "is not read", RULE, hint="did you mean `arguments`?")
        elif not has_arguments and not _REMARKS.fullmatch(_letters(key)):
            hint = "did you mean `arguments`? A tool without arguments has {}"
            yield Issue(pointer, "is not read, and `arguments` is missing", RULE, hint=hint)


def _is_like_arguments(key: str) -> bool:
    if _SYNONYMS.fullmatch(_letters(key)):
        return True
    return nearest(key, ["arguments"]) is not None


def _letters(key: str) -> str:
    return _SEPARATORS.sub("", key).lower()
