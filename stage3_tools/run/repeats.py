"""`Repeats`: detects a model that repeats the same call.

The third equal call in a row gets a note, the fifth one is rejected. Used by `RunState`.
"""

import json

from stage0_gateway import ToolCall
from stage3_tools.errors import ToolError
from stage3_tools.execution.arguments import canonical

NOTE_AT = 3
BLOCK_AT = 5


class Repeats:
    """Counts equal calls in a row."""

    def __init__(self) -> None:
        self._last: ToolCall | None = None
        self._count = 0

    def note(self, call: ToolCall) -> str:
        """Count a call; return a note for the model, or "".

        Raises:
            ToolError: The call was repeated too often and must not be run ("rejected").
        """
        self._count = self._count + 1 if self._last and _are_equal(self._last, call) else 1
        self._last = call
        if self._count >= BLOCK_AT:
            raise _repeated_too_often(call, self._count)
        if self._count >= NOTE_AT:
            return f"\nNote: this is call {self._count} in a row with the same arguments."
        return ""


def _repeated_too_often(call: ToolCall, count: int) -> ToolError:
    message = f"{call.name} was called {count} times in a row with the same arguments, so it is not"
    hint = "Use the results above, call another tool, or answer."
    return ToolError("rejected", f"{message} run again.", hint=hint)


def _are_equal(first: ToolCall, second: ToolCall) -> bool:
    """Whether two calls have the same tool and arguments, in any spelling of the JSON."""
    if first.name != second.name:
        return False
    if first.arguments == second.arguments:
        return True
    try:
        return canonical(json.loads(first.arguments)) == canonical(json.loads(second.arguments))
    except (ValueError, RecursionError):
        return False
