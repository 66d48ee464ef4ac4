"""What can go wrong with sessions and windows. All of it is the caller's to mend; the texts say how."""


class ContextError(Exception):
    """Something about a session or its window."""


class SessionNotFound(ContextError, LookupError):
    """There is no session with this id."""


class SessionExists(ContextError, ValueError):
    """A session with this id was created before."""


class WindowTooSmall(ContextError, ValueError):
    """What must be sent does not fit into the window."""
