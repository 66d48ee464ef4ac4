"""`VariableStore`: values put aside, so that a model can pass them on without reading them.

A long result is kept as a variable; the model sees `$VAR_REF{{var_12}}` and may write that as an
argument, or as a part of one. Variables are records of the session's journal, and the number in an
id is the record's.

References are expanded only where the caller says so: in arguments that a model wrote. What a value
holds is data; a reference inside of it stays text.
"""

import copy
import json
import re
from collections import Counter
from contextlib import suppress
from typing import Any

from stage1_context.errors import SessionExists, VariableNotFound
from stage1_context.journal import VariableRecord, record_from_json, record_to_json
from stage1_context.store import MemoryStore, SessionStore, run_shielded

_REFERENCE = re.compile(r"\$VAR_REF\{\{\s*([^{}\s]+)\s*\}\}")
_ID = re.compile(r"var_([0-9a-z]*_)?([1-9][0-9]{0,17})")

MOST_CHARACTERS = 10_000_000
"""Of arguments, with the values of all references in them."""


class VariableStore:
    """The variables of sessions.

    Args:
        store: Where the sessions are kept; None keeps variables in memory, for sessions of any
            name.
        mark: Letters and digits that stand in each id. Where several stores may meet in one
            conversation, a reference to a variable of one must not lead to one of another.
    """

    def __init__(self, store: SessionStore | None = None, *, mark: str = "") -> None:
        self._mark = f"{mark}_" if mark else ""
        self._store: SessionStore = MemoryStore() if store is None else store
        self._makes_sessions = store is None

    async def check(self, session_id: str) -> None:
        """Make sure that a session can have variables, before something depends on it.

        Raises:
            SessionNotFound: There is no such session.
        """
        if not self._makes_sessions:
            await self._store.info(session_id)

    async def put(self, session_id: str, value: Any) -> str:
        """Put a value aside.

        Args:
            session_id: Whose variable it is.
            value: Anything that JSON can hold; it is copied.

        Returns:
            Its id, for `get` and for references.

        Raises:
            SessionNotFound: There is no such session.
            ValueError: JSON cannot hold it.
        """
        record = record_from_json(record_to_json(VariableRecord(value)))
        if self._makes_sessions:
            await self._make(session_id)
        length = await run_shielded(lambda: self._store.append(session_id, record))
        return f"var_{self._mark}{length}"

    async def get(self, session_id: str, id: str) -> Any:
        """A value that was put aside.

        Raises:
            SessionNotFound: There is no such session.
            VariableNotFound: There is no such variable in it.
        """
        return copy.deepcopy(await self._get(session_id, id))

    async def expand(self, session_id: str, arguments: Any) -> Any:
        """Arguments with the values in place of the references.

        A text that is nothing but a reference becomes the value, whatever its type; a reference
        inside of a longer text becomes text. Keys are left alone.

        Args:
            session_id: Whose variables they are.
            arguments: Arguments as a model wrote them, parsed.

        Raises:
            VariableNotFound: A reference leads nowhere.
            ValueError: The arguments are nested too deeply, or would become very large.
        """
        found: dict[str, Any] = {}
        try:
            referred = Counter(_referred(arguments))
            for id in referred:
                found[id] = await self._get(session_id, id)
            together = sum(len(_as_text(found[id])) * count for id, count in referred.items())
            if together > MOST_CHARACTERS:
                raise ValueError(
                    f"With the values of their references the arguments would have {together:,} characters; "
                    f"{MOST_CHARACTERS:,} are the most."
                )
            return _expanded(arguments, found) if found else arguments
        except RecursionError:
            raise ValueError(
                "The arguments are nested too deeply for references in them."
            ) from None

    @staticmethod
    def reference(id: str) -> str:
        """How a variable is referred to in arguments: `$VAR_REF{{id}}`."""
        return f"$VAR_REF{{{{{id}}}}}"

    async def _get(self, session_id: str, id: str) -> Any:
        """The value itself; whoever hands it out copies it."""
        if self._makes_sessions:
            await self._make(session_id)
        if (match := _ID.fullmatch(id)) and (match[1] or "") == self._mark:
            place = int(match[2]) - 1
            for _, record in await self._store.read(
                session_id, place, place + 1, kinds=("variable",)
            ):
                if isinstance(record, VariableRecord):
                    return record.value
        there = await self._store.read(session_id, kinds=("variable",))
        some = ", ".join(f"var_{self._mark}{index + 1}" for index, _ in there[-5:]) or "none yet"
        raise VariableNotFound(f"There is no variable {id!r} in this session. Variables: {some}.")

    async def _make(self, session_id: str) -> None:
        with suppress(SessionExists):
            await self._store.create(session_id)


def _referred(value: Any) -> list[str]:
    if isinstance(value, str):
        return _REFERENCE.findall(value)
    inside = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return [id for each in inside for id in _referred(each)]


def _expanded(value: Any, found: dict[str, Any]) -> Any:
    if isinstance(value, dict):
        return {key: _expanded(each, found) for key, each in value.items()}
    if isinstance(value, list):
        return [_expanded(each, found) for each in value]
    if not isinstance(value, str):
        return value
    if whole := _REFERENCE.fullmatch(value):
        return copy.deepcopy(found[whole[1]])
    return _REFERENCE.sub(lambda match: _as_text(found[match[1]]), value)


def _as_text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
