"""The errors of this stage. All are meant for the caller; their texts state the fix."""

from collections.abc import Iterable


class ContextError(Exception):
    """An error of a session, its store or its window."""


class SessionNotFound(ContextError, LookupError):
    """The session does not exist.

    Args:
        session_id: The unknown id.
        known: Some ids of existing sessions, for the text; None if the store does not list them.

    Attributes:
        session_id: The unknown id.
        known: Some ids of existing sessions, or None.
    """

    def __init__(self, session_id: str, known: Iterable[str] | None = None) -> None:
        self.session_id = session_id
        self.known = None if known is None else tuple(known)
        super().__init__(session_id, self.known)

    def __str__(self) -> str:
        text = f"Unknown session {self.session_id!r}. "
        if self.known is not None:
            text += f"Sessions: {', '.join(map(repr, self.known)) or 'none yet'}. "
        return text + "Create one with create_session()."


class SessionExists(ContextError, ValueError):
    """A session with this id exists already.

    Attributes:
        session_id: The id.
    """

    def __init__(self, session_id: str) -> None:
        self.session_id = session_id
        super().__init__(session_id)

    def __str__(self) -> str:
        return (
            f"The session {self.session_id!r} exists already. Choose another id, or continue it "
            f"with create_session({self.session_id!r}, exist_ok=True)."
        )


class SessionConflict(ContextError):
    """Another writer changed the session. Read the new records and decide again."""


class StoreFailed(ContextError):
    """The store cannot be reached, read or written."""


class WindowTooSmall(ContextError, ValueError):
    """The newest exchange does not fit into the window."""


class VariableNotFound(ContextError, LookupError):
    """The session has no variable with this id."""
