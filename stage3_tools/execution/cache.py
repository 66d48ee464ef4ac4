"""`ResultCache`: what read tools said before, so that the same question need not be asked twice.

Only successes of tools with the effect "read" are kept, by tool and canonical JSON of the
arguments. Any call of another tool may change what a read would say: it clears the cache when it
begins and when it ends. (A tool that was abandoned at its time limit may still change something
later; that is not seen.) Knows no run: whoever wants a cache gives it to the options, for one
session, or one for many.
"""

from collections import OrderedDict
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

from stage3_tools.execution.arguments import canonical
from stage3_tools.execution.settings import Execution, ReadyCall
from stage3_tools.result import ToolResult
from stage3_tools.tool import Tool

Key = tuple[str | None, str, str]


class ResultCache:
    """Results of read tools.

    Args:
        shared: Whether sessions see each other's results. False keeps them apart, as it must be
            wherever an answer depends on who asks.
        max_entries: The most results to keep; the one that was not asked for the longest goes
            first.

    Attributes:
        version: Grows with every clearing.

    Raises:
        ValueError: There is no room for a single one.
    """

    def __init__(self, *, shared: bool = False, max_entries: int = 1000) -> None:
        if max_entries < 1:
            raise ValueError(f"max_entries is {max_entries}; 1 is the least.")
        self.version = 0
        self._shared = shared
        self._max_entries = max_entries
        self._entries: OrderedDict[Key, tuple[Tool, ToolResult]] = OrderedDict()

    def key(self, session: str | None, tool: Tool, arguments: dict[str, Any]) -> Key:
        """Under what a result is kept; a tool that knows its session has one answer for each."""
        shared = self._shared and not tool.wants_context
        return (None if shared else session, tool.name, canonical(arguments))

    def get(self, key: Key, tool: Tool) -> ToolResult | None:
        """What this very tool said, or None; another one may have got its name."""
        kept = self._entries.get(key)
        if kept is None or kept[0] is not tool:
            return None
        self._entries.move_to_end(key)
        return kept[1]

    def put(self, key: Key, tool: Tool, result: ToolResult, version: int) -> None:
        """Keep a success, unless the cache was cleared since `version`: it may be out of date."""
        if version == self.version:
            self._entries[key] = (tool, result)
            self._entries.move_to_end(key)
        if len(self._entries) > self._max_entries:
            self._entries.popitem(last=False)

    def clear(self) -> None:
        """Forget everything."""
        self.version += 1
        self._entries.clear()

    def __len__(self) -> int:
        return len(self._entries)


async def through_cache(
    ready: ReadyCall, execution: Execution, run: Callable[[], Awaitable[ToolResult]]
) -> ToolResult:
    """Return a read's cached result if there is one; run every other call, and clear the cache if
    it is no read.
    """
    cache, tool = execution.cache, ready.tool
    if cache is None:
        return await run()
    if tool.effect != "read":
        cache.clear()
        try:
            return await run()
        finally:
            cache.clear()
    session = execution.origin or execution.session_id
    key, version = cache.key(session, tool, ready.arguments.given), cache.version
    if kept := cache.get(key, tool):
        cached = replace(kept, call_id=ready.call.id, cached=True, attempts=0, duration=0.0)
        return replace(cached, repairs=ready.arguments.repairs, note=ready.note)
    result = await run()
    if result.status == "completed":
        cache.put(key, tool, result, version)
    return result
