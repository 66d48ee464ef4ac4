"""The errors of this stage. All are meant for the caller; their texts state the fix."""


class ContextError(Exception):
    """An error of a session, its store or its window."""


class SessionNotFound(ContextError, LookupError):
    """The session does not exist."""


class SessionExists(ContextError, ValueError):
    """A session with this id exists already."""


class SessionConflict(ContextError):
    """Another writer changed the session. Read the new records and decide again."""


class StoreFailed(ContextError):
    """The store cannot be reached, read or written."""


class WindowTooSmall(ContextError, ValueError):
    """The newest exchange does not fit into the window."""


class VariableNotFound(ContextError, LookupError):
    """The session has no variable with this id."""
