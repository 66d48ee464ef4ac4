"""What can go wrong with sessions, stores and windows. All of it is the caller's to mend; the texts
say how.
"""


class ContextError(Exception):
    """Something about a session, where it is kept, or its window."""


class SessionNotFound(ContextError, LookupError):
    """There is no session with this id."""


class SessionExists(ContextError, ValueError):
    """A session with this id was created before."""


class SessionConflict(ContextError):
    """Somebody else wrote to the session in between; read what is new, and decide again."""


class StoreFailed(ContextError):
    """Where the journals are kept cannot be reached, read or written."""


class WindowTooSmall(ContextError, ValueError):
    """What must be sent does not fit into the window."""


class VariableNotFound(ContextError, LookupError):
    """There is no variable with this id in the session."""
