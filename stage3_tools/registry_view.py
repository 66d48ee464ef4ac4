"""`RegistryView`: some tools of a registry, as a registry of their own.

For an agent that may use a few tools of many, or those of one server. Whatever changes in the
registry shows in the view at once; a view holds no tools, so nothing can be added to one or taken
from it. Made by `ToolRegistry.subset` and `ToolRegistry.group`; whoever takes a registry takes a
view.
"""

from collections.abc import Callable
from typing import NoReturn

from stage3_tools.errors import RegistrationError
from stage3_tools.registry import Registrable, ToolRegistry
from stage3_tools.tool import Tool

_READ_ONLY = (
    "A view only shows tools. Change the registry that it was made from; the view shows the change."
)


class RegistryView(ToolRegistry):
    """The tools of a registry whose names pass a test. A model that is given a view learns of no
    others.

    Args:
        parent: The registry, or a view of it.
        shows: Whether a tool of this name belongs to the view.
    """

    def __init__(self, parent: ToolRegistry, shows: Callable[[str], bool]) -> None:
        super().__init__()
        self._parent = parent
        self._shows = shows

    def register(self, *tools: Registrable) -> NoReturn:
        """Raise a RegistrationError: a view only shows tools."""
        raise RegistrationError(_READ_ONLY)

    def unregister(self, name: str) -> NoReturn:
        """Raise a RegistrationError: a view only shows tools."""
        raise RegistrationError(_READ_ONLY)

    def list(self) -> list[Tool]:
        """The tools of the view, in the order they were registered."""
        return [each for each in self._parent.list() if self._shows(each.name)]

    def _find(self, name: object) -> Tool | None:
        return self._parent._find(name) if isinstance(name, str) and self._shows(name) else None


class ExtendedRegistry(RegistryView):
    """All tools of a registry and one more; a tool of the registry goes before one of the same
    name.

    Args:
        parent: The registry, or a view of it.
        more: The tool that is added.
    """

    def __init__(self, parent: ToolRegistry, more: Tool) -> None:
        super().__init__(parent, lambda name: True)
        self._more = more

    def _find(self, name: object) -> Tool | None:
        return super()._find(name) or (self._more if name == self._more.name else None)

    def list(self) -> list[Tool]:
        """The tools of the registry, and the added one."""
        tools = super().list()
        return tools if self._more.name in self._parent else [*tools, self._more]
