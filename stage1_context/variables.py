"""`VariableStore`: store values that a model passes on without reading them.

A long result becomes a variable. The model sees `$VAR_REF{{var_12}}` and may use that as an
argument or within one. Variables are records of the session's journal; the number in an id is the
number of the record, counted from 1.

References are expanded only where the caller requests it: in arguments that a model wrote. A
reference inside a value remains text.
"""

import copy
import json
import re
from collections import Counter
from contextlib import suppress
from typing import Any

from stage1_context.errors import SessionExists, VariableNotFound
from stage1_context.journal import (
    VariableDeletedRecord,
    VariableRecord,
    record_from_json,
    record_to_json,
)
from stage1_context.store import MemoryStore, SessionStore, run_shielded

_REFERENCE = re.compile(r"\$VAR_REF\{\{\s*([^{}\s]+)\s*\}\}")
_ID = re.compile(r"var_([0-9a-z]*_)?([1-9][0-9]{0,17})")

MAX_EXPANDED_CHARACTERS = 10_000_000
"""The most characters that references may add to the arguments of a call."""


class VariableStore:
    """Stores the variables of sessions.

    Args:
        store: The store of the sessions. None stores variables in memory, for any session id.
        mark: Letters and digits in each id. It distinguishes the variables of several stores that
            one conversation may refer to.
    """

    def __init__(self, store: SessionStore | None = None, *, mark: str = "") -> None:
        self._mark = f"{mark}_" if mark else ""
        self._store: SessionStore = MemoryStore() if store is None else store
        self._creates_sessions = store is None

    async def check(self, session_id: str) -> None:
        """Verify that a session can have variables.

        Raises:
            SessionNotFound: The session does not exist.
        """
        if not self._creates_sessions:
            await self._store.info(session_id)

    async def put(self, session_id: str, value: Any) -> str:
        """Store a value.

        Args:
            session_id: The session.
            value: A JSON value; it is copied.

        Returns:
            The id for `get` and for references.

        Raises:
            SessionNotFound: The session does not exist.
            ValueError: JSON cannot hold the value.
        """
        record = record_from_json(record_to_json(VariableRecord(value)))
        await self._create(session_id)
        length = await run_shielded(lambda _: self._store.append(session_id, record))
        return self._id(length - 1)

    async def get(self, session_id: str, id: str) -> Any:
        """Return a copy of a stored value.

        Raises:
            SessionNotFound: The session does not exist.
            VariableNotFound: The session has no such variable.
        """
        return copy.deepcopy(await self._get(session_id, id))

    async def list(self, session_id: str) -> list[str]:
        """Return the ids of all variables of a session, oldest first, without deleted ones.

        Raises:
            SessionNotFound: The session does not exist.
        """
        await self._create(session_id)
        records = await self._store.read(session_id, kinds=("variable", "variable_deleted"))
        ids = [self._id(index) for index, record in records if isinstance(record, VariableRecord)]
        deleted = {record.id for _, record in records if isinstance(record, VariableDeletedRecord)}
        return [id for id in ids if id not in deleted]

    async def delete(self, session_id: str, id: str) -> None:
        """Delete a variable, so that `get`, `expand` and `list` no longer find it.

        The journal keeps the value until the session is deleted.

        Raises:
            SessionNotFound: The session does not exist.
            VariableNotFound: The session has no such variable.
        """
        await self._get(session_id, id)
        await run_shielded(lambda _: self._store.append(session_id, VariableDeletedRecord(id)))

    async def expand(self, session_id: str, arguments: Any) -> Any:
        """Return arguments with the values of their references.

        A text that is only a reference becomes the value and has its type. A reference within a
        longer text becomes text. Keys remain unchanged.

        Args:
            session_id: The session.
            arguments: The parsed arguments that a model wrote.

        Raises:
            VariableNotFound: A reference names an unknown variable.
            ValueError: The arguments are nested too deeply or would become too large.
        """
        values: dict[str, Any] = {}
        try:
            references = Counter(_references(arguments))
            for id in references:
                values[id] = await self._get(session_id, id)
            characters = sum(len(_as_text(values[id])) * n for id, n in references.items())
            if characters > MAX_EXPANDED_CHARACTERS:
                raise ValueError(
                    f"The values of the references have {characters:,} characters together; at "
                    f"most {MAX_EXPANDED_CHARACTERS:,} are allowed."
                )
            return _expanded(arguments, values) if values else arguments
        except RecursionError:
            raise ValueError("The arguments are nested too deeply to expand references.") from None

    @staticmethod
    def reference(id: str) -> str:
        """Return the reference to a variable: `$VAR_REF{{id}}`."""
        return f"$VAR_REF{{{{{id}}}}}"

    async def _get(self, session_id: str, id: str) -> Any:
        await self._create(session_id)
        if (match := _ID.fullmatch(id)) and (match[1] or "") == self._mark:
            index = int(match[2]) - 1
            read = self._store.read
            found = await read(session_id, index, index + 1, kinds=("variable",))
            later = await read(session_id, index + 1, kinds=("variable_deleted",))
            is_deleted = any(record == VariableDeletedRecord(id) for _, record in later)
            for _, record in found:
                if isinstance(record, VariableRecord) and not is_deleted:
                    return record.value
        ids = ", ".join((await self.list(session_id))[-5:]) or "none yet"
        raise VariableNotFound(f"Unknown variable {id!r} in this session. Variables: {ids}.")

    def _id(self, index: int) -> str:
        """Return the id of the variable whose record has this index."""
        return f"var_{self._mark}{index + 1}"

    async def _create(self, session_id: str) -> None:
        if self._creates_sessions:
            with suppress(SessionExists):
                await self._store.create(session_id)


def _references(value: Any) -> list[str]:
    if isinstance(value, str):
        return _REFERENCE.findall(value)
    items = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return [id for item in items for id in _references(item)]


def _expanded(value: Any, values: dict[str, Any]) -> Any:
    if isinstance(value, dict):
        return {key: _expanded(item, values) for key, item in value.items()}
    if isinstance(value, list):
        return [_expanded(item, values) for item in value]
    if not isinstance(value, str):
        return value
    if reference := _REFERENCE.fullmatch(value):
        return copy.deepcopy(values[reference[1]])
    return _REFERENCE.sub(lambda match: _as_text(values[match[1]]), value)


def _as_text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
