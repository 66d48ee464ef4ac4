"""Export a session as text, and import it: JSON lines, the first of them about the session.

`ContextEngine.export_session` and `import_session` use it with any store.
"""

import json

from stage1_context.journal import record_from_json, record_to_json
from stage1_context.store import SessionStore

_FORMAT = "llm-stages session"
_VERSION = 1


async def export_session(store: SessionStore, session_id: str) -> str:
    """Return all records of a session, one per line.

    Raises:
        SessionNotFound: The session does not exist.
    """
    records = [record_to_json(record) for _, record in await store.read(session_id)]
    header = {
        "format": _FORMAT,
        "version": _VERSION,
        "session_id": session_id,
        "records": len(records),
    }
    return "\n".join([json.dumps(header, ensure_ascii=False), *records, ""])


async def import_session(store: SessionStore, text: str, session_id: str | None = None) -> str:
    """Create a session from a text that `export_session` wrote.

    Args:
        store: The store of the new session.
        text: The exported text.
        session_id: The new id; None uses the exported one.

    Returns:
        The session's id.

    Raises:
        SessionExists: The session exists already.
        ValueError: The text is not an exported session, or a line of it is damaged.
    """
    first, *lines = text.split("\n")
    exported_id, count = _header(first)
    records = [record_from_json(line) for line in lines if line.strip()]
    if len(records) != count:
        raise ValueError(
            f"The exported session has {len(records)} records, not {count}: a part is missing."
        )
    session_id = exported_id if session_id is None else session_id
    await store.create(session_id, *records)
    return session_id


def _header(line: str) -> tuple[str, int]:
    """Return the session id and the number of records from the first line."""
    try:
        header = json.loads(line)
        if (header["format"], header["version"]) == (_FORMAT, _VERSION):
            return header["session_id"], header["records"]
    except (ValueError, TypeError, KeyError, RecursionError):
        pass
    raise ValueError(
        f"This is not an exported session of version {_VERSION}: its first line is {line[:80]!r}."
    )
