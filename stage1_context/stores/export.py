"""A session as a text that can be kept, sent and read in again: JSON Lines, the first of them about
the session.

Knows records and no store of its own. Used by `ContextEngine.export_session` and `import_session`.
"""

import json

from stage1_context.journal import Record, record_from_json, record_to_json
from stage1_context.store import SessionStore

_FORMAT = "llm-stages session"
_VERSION = 1


async def export_session(store: SessionStore, session_id: str) -> str:
    """Everything a session's journal holds, one record a line.

    Raises:
        SessionNotFound: There is no such session.
    """
    records = [record_to_json(record) for _, record in await store.read(session_id)]
    about = {
        "format": _FORMAT,
        "version": _VERSION,
        "session_id": session_id,
        "records": len(records),
    }
    return "\n".join([json.dumps(about, ensure_ascii=False), *records, ""])


async def import_session(store: SessionStore, text: str, session_id: str | None = None) -> str:
    """Begin a session with what `export_session` wrote.

    Args:
        store: Where to keep it.
        text: The exported text.
        session_id: Its name; None takes the name it had.

    Returns:
        The session's id.

    Raises:
        SessionExists: The id is taken.
        ValueError: The text is something else, or damaged; the line is named.
    """
    first, *lines = text.split("\n")
    name, length = _about(first)
    records = [_record(number, line) for number, line in enumerate(lines, 2) if line.strip()]
    if len(records) != length:
        raise ValueError(
            f"The exported session has {len(records)} records, not {length}: a part is missing."
        )
    await store.create(session_id or name, *records)
    return session_id or name


def _about(line: str) -> tuple[str, int]:
    """The id and the number of records in the first line, which also says that this is an exported
    session.
    """
    try:
        about = json.loads(line)
    except (ValueError, RecursionError):
        about = None
    known = isinstance(about, dict) and (about.get("format"), about.get("version")) == (
        _FORMAT,
        _VERSION,
    )
    if not (
        known and isinstance(about.get("session_id"), str) and isinstance(about.get("records"), int)
    ):
        raise ValueError(
            f"This is no exported session of version {_VERSION}: its first line is {line[:80]!r}."
        )
    return about["session_id"], about["records"]


def _record(number: int, line: str) -> Record:
    try:
        return record_from_json(line)
    except ValueError as error:
        raise ValueError(f"Line {number} of the exported session is damaged: {error}") from None
