"""The same call again and again.

`Repeats` notices a model that asks for the same thing again and again: a note at the third time in
a row, a refusal from the fifth on.
"""

import json

from stage0_gateway import ToolCall
from stage3_tools.errors import ToolError
from stage3_tools.execution.arguments import canonical

NOTE_AT = 3
BLOCK_AT = 5


class Repeats:
    """Counts how often the same call came in a row."""

    def __init__(self) -> None:
        self._last: tuple[str, str] | None = None
        self._count = 0

    def note(self, call: ToolCall) -> str:
        """Count a call in; returns what to tell the model besides the result, or "".

        Raises:
            ToolError: It came too often and is not to be run ("rejected").
        """
        key = (call.name, _spelled_alike(call.arguments))
        self._count = self._count + 1 if key == self._last else 1
        self._last = key
        if self._count >= BLOCK_AT:
            raise ToolError(
                "rejected",
                f"{call.name} was called with the same arguments {self._count} times in a row and is not run again.",
                hint="Use the results above, call another tool, or answer.",
            )
        if self._count >= NOTE_AT:
            return f"\nNote: this is call {self._count} in a row with the same arguments."
        return ""


def _spelled_alike(arguments: str) -> str:
    """The same text for the same arguments, however a model spaced and ordered them."""
    try:
        return canonical(json.loads(arguments))
    except (ValueError, RecursionError):
        return arguments
