"""`ResultCache`: results of read tools, by tool and arguments.

Only successful results of tools with the effect "read" are stored. A call of any other tool clears
the cache when it begins and when it ends. (A tool that was abandoned at its time limit may still
change something later; the cache cannot detect this.) A cache belongs to the caller: one for each
session, or one for many.
"""

from collections import OrderedDict

from stage3_tools.execution.arguments import Arguments, canonical
from stage3_tools.result import ToolResult
from stage3_tools.tool import Tool

Key = tuple[str | None, str, str]


class ResultCache:
    """Results of read tools.

    Args:
        shared: Whether sessions share results. Use False if a result depends on the user.
        max_entries: Maximum number of stored results; the least recently used one is removed.

    Attributes:
        version: Number of times the cache was cleared.

    Raises:
        ValueError: `max_entries` is below 1.
    """

    def __init__(self, *, shared: bool = False, max_entries: int = 1000) -> None:
        if max_entries < 1:
            raise ValueError(f"max_entries is {max_entries}; use at least 1.")
        self.version = 0
        self._shared = shared
        self._max_entries = max_entries
        self._entries: OrderedDict[Key, tuple[Tool, ToolResult]] = OrderedDict()

    def key(self, session: str | None, tool: Tool, arguments: Arguments) -> Key:
        """Return the key of a call. A tool that receives a context has results for each session."""
        shared = self._shared and not tool.takes_context
        return (None if shared else session, tool.name, canonical(arguments.parsed()))

    def get(self, key: Key, tool: Tool) -> ToolResult | None:
        """Return the result of this tool, or None; another tool may have the same name."""
        stored_tool, result = self._entries.get(key, (None, None))
        if stored_tool is not tool:
            return None
        self._entries.move_to_end(key)
        return result

    def put(self, key: Key, tool: Tool, result: ToolResult, version: int) -> None:
        """Store a result, unless the cache was cleared since `version`."""
        if version == self.version:
            self._entries[key] = (tool, result)
            self._entries.move_to_end(key)
        if len(self._entries) > self._max_entries:
            self._entries.popitem(last=False)

    def clear(self) -> None:
        """Remove all results."""
        self.version += 1
        self._entries.clear()

    def __len__(self) -> int:
        return len(self._entries)
