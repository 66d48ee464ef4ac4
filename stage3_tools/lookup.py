"""`ToolLookup`: what can be asked of tools by their names.

The reading half of a registry: it changes nothing, and runs nothing. What can be asked is the same for a
registry and for a view of one; they differ in where their tools stand.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from stage0_gateway import ToolSpec
from stage2_output import nearest
from stage3_tools.errors import ToolError
from stage3_tools.tool import Tool

_MOST_LISTED = 50
_NO_PARAMETERS: Mapping[str, Any] = {"type": "object", "properties": {}}


class _Listing(NamedTuple):
    """All tools as they stood at one version; kept, because it is asked for far more often than it changes."""

    version: int
    tools: tuple[Tool, ...]
    names: tuple[str, ...]


class ToolLookup(ABC):
    """Tools by name, in the order they were registered."""

    def __init__(self) -> None:
        self._kept = _Listing(-1, (), ())

    @property
    @abstractmethod
    def version(self) -> int:
        """Grows with every change, so that whoever describes the tools knows when to do it anew."""

    @property
    def names(self) -> tuple[str, ...]:
        """The names of all tools, in the order they were registered."""
        return self._listing().names

    def get(self, name: str) -> Tool:
        """The tool of this name.

        Raises:
            ToolError: There is none ("not_found"); the text names those there are, and the nearest.
        """
        tool = self._find(name)
        if tool is None:
            raise self._unknown(name)
        return tool

    def list(self) -> list[Tool]:
        """All tools, in the order they were registered."""
        return [*self._listing().tools]

    def specs(self) -> tuple[ToolSpec, ...]:
        """The tools as a provider is told of them: for `gateway.chat(…, tools=registry.specs())`."""
        return tuple(map(_spec, self._listing().tools))

    def groups(self, separator: str = ".") -> dict[str, tuple[Tool, ...]]:
        """The tools by what stands before the first separator in their names; those without one under ""."""
        groups: dict[str, list[Tool]] = {}
        for tool in self._listing().tools:
            group, found, _ = tool.name.partition(separator)
            groups.setdefault(group if found else "", []).append(tool)
        return {group: tuple(tools) for group, tools in groups.items()}

    def __len__(self) -> int:
        return len(self.names)

    def __contains__(self, name: object) -> bool:
        return self._find(name) is not None

    def __repr__(self) -> str:
        return f"{type(self).__name__}({listed(self.names)})"

    @abstractmethod
    def _find(self, name: object) -> Tool | None:
        """The tool of this name, in constant time."""

    @abstractmethod
    def _all(self) -> tuple[Tool, ...]:
        """All tools; asked for once per version."""

    def _listing(self) -> _Listing:
        kept, version = self._kept, self.version
        if kept.version != version:  # the version was read first: a change in between makes the next one look
            tools = self._all()
            kept = self._kept = _Listing(version, tools, tuple(each.name for each in tools))
        return kept

    def _unknown(self, name: object) -> ToolError:
        beginning = str(name)[: len(str(name)) // 2]
        # Of very many names only the first few hundred are compared, so those that begin alike come first.
        near = nearest(str(name), sorted(self.names, key=lambda each: not each.startswith(beginning)))
        return ToolError(
            "not_found",
            f"There is no tool named {str(name)[:80]!r}. Available tools: {listed(self.names) or 'none'}.",
            hint=f"Did you mean {near}?" if near else None,
            details={"expected_schema": None, "issues": (), "available_tools": self.names},
        )


def _spec(tool: Tool) -> ToolSpec:
    """Providers want the schema of an object, and some of them to be told its properties, if there are none."""
    return ToolSpec(tool.name, tool.description, {**_NO_PARAMETERS, **(tool.parameters or {})})


def listed(names: Sequence[str]) -> str:
    """Names in one line, of very many the first ones."""
    more = len(names) - _MOST_LISTED
    return ", ".join(names[:_MOST_LISTED]) + (f" and {more} more" if more > 0 else "")
