"""`LongValues`: store long results as variables, and show the model a preview.

    result of a tool, 5,000 characters   stored as variable var_7
    the model sees                       200 characters, and [5000 characters in …]
    the model may call                   save {"text": "$VAR_REF{{var_7}}"}
    or                                   read_variable {"id": "var_7"}

References are expanded only in arguments of calls. In values, and in texts of users and tools, they
remain text. Variables are records of the session's journal, so they outlive the process. This
module does not know the loop; `run/variables.py` uses it.
"""

import json
import re
import sys
from collections.abc import Iterable
from dataclasses import replace
from functools import cached_property
from hashlib import sha256
from typing import Any, Protocol

from stage0_gateway import JsonPart, Message, TextPart
from stage1_context import MemoryStore, StoreFailed, Transcript, VariableNotFound, VariableStore
from stage3_tools.errors import ToolError
from stage3_tools.execution.settings import REFERENCE
from stage3_tools.result import ToolResult, is_longer, part_text
from stage3_tools.tool import Tool

READ_VARIABLE = "read_variable"

_MAX_KEYS = 20

PREVIEW = 200
"""Number of characters of a long result that the model sees."""


class Values(Protocol):
    """Where a run stores long results, and finds the values of references."""

    @property
    def reader(self) -> Tool:
        """The tool `read_variable`."""

    async def preview(self, result: ToolResult, longer_than: int) -> tuple[ToolResult, str | None]:
        """Store a long result; return its preview, and the id of its variable."""

    async def expand(self, tool: Tool, arguments: Any) -> str:
        """Replace the references in parsed arguments by values; return the JSON text."""


class LongValues:
    """The long results of one session; implements `Values`.

    Args:
        variables: The store of the variables.
        session_id: The session.
    """

    def __init__(self, variables: VariableStore, session_id: str) -> None:
        self._variables = variables
        self.session_id = session_id

    @classmethod
    def of(cls, transcript: Transcript) -> "LongValues":
        """Create the long values of a conversation, stored in its own journal."""
        store, session_id = transcript.store, transcript.session_id
        mark = ""
        if isinstance(store, MemoryStore) and not session_id:
            mark = mark_of(transcript.messages)
        return cls(VariableStore(store, mark=mark), session_id)

    @cached_property
    def reader(self) -> Tool:
        """The tool `read_variable` for this session."""
        return Tool(READ_VARIABLE, _DESCRIPTION, _PARAMETERS, self._read, effect="read")

    async def check(self) -> None:
        """Verify that values can be stored.

        Raises:
            SessionNotFound: The session does not exist.
        """
        await self._variables.check(self.session_id)

    async def store(self, value: Any) -> str:
        """Store a value and return the id of its variable."""
        return await self._variables.put(self.session_id, value)

    async def preview(self, result: ToolResult, longer_than: int) -> tuple[ToolResult, str | None]:
        """Store a long result.

        Args:
            result: The result. A result of `read_variable` is not stored again.
            longer_than: Maximum number of characters of a result that is not stored.

        Returns:
            The result with a preview as its output, and the id of its first variable; or the
            unchanged result, and None.
        """
        if result.name == READ_VARIABLE or not is_longer(result.output, longer_than):
            return result, None
        if isinstance(result.output, str):
            id = await self.store(json_value(result.output) if result.is_json else result.output)
            return replace(result, output=_preview(result.output, id)), id
        output, ids = list(result.output), list[str]()
        for index, part in enumerate(output):
            if len(text := part_text(part)) > PREVIEW:
                ids.append(await self.store(part.value if isinstance(part, JsonPart) else text))
                output[index] = TextPart(_preview(text, ids[-1]))
        return replace(result, output=tuple(output)), ids[0] if ids else None

    async def expand(self, tool: Tool, arguments: Any) -> str:
        """Replace the references in parsed arguments by values; return the JSON text.

        Raises:
            ToolError: A variable does not exist ("validation"), or the store failed ("execution").
        """
        if tool is self.reader:
            return _json_text(arguments)
        try:
            return _json_text(await self._variables.expand(self.session_id, arguments))
        except (VariableNotFound, ValueError) as error:
            raise ToolError("validation", str(error)) from None
        except StoreFailed as error:
            raise ToolError("execution", f"The variables cannot be read: {error}") from error

    async def _read(self, arguments: dict[str, Any]) -> str:
        id = arguments["id"].strip().removeprefix(REFERENCE).removesuffix("}}").strip()
        try:
            value = await self._variables.get(self.session_id, id)
        except VariableNotFound as error:
            raise ToolError("not_found", str(error)) from None
        if pointer := arguments.get("pointer"):
            value = _value_at(value, pointer)
        text = value if isinstance(value, str) else _json_text(value)
        start = arguments.get("start", 0)
        part = text[start : start + arguments.get("length", len(text))]
        if part == text:
            return text
        return f"{part}\n[characters {start} to {start + len(part)} of {len(text)}]"


def _value_at(value: Any, pointer: str) -> Any:
    """Return the part of a JSON value that a JSON pointer (RFC 6901) names.

    Raises:
        ToolError: There is no such part.
    """
    path = ""
    for name in pointer.removeprefix("/").split("/"):
        key = name.replace("~1", "/").replace("~0", "~")
        if isinstance(value, dict) and key in value:
            value = value[key]
        elif isinstance(value, list) and (index := _index(key)) < len(value):
            value = value[index]
        else:
            raise ToolError("not_found", f"There is no {path}/{name}: {_described(value, path)}.")
        path += f"/{name}"
    return value


def _index(key: str) -> int:
    """Return a key as an index; one that no list has for other texts."""
    return int(key) if re.fullmatch("[0-9]{1,9}", key) else sys.maxsize


def _described(value: Any, path: str) -> str:
    owner = path or "the value"
    if isinstance(value, dict):
        return f"the keys of {owner} are {', '.join(map(repr, [*value][:_MAX_KEYS]))}"
    if isinstance(value, list):
        return f"{owner} is a list of {len(value)} items, numbered from 0"
    return f"{owner} is not an object or a list. Use start and length"


def mark_of(messages: Iterable[Message]) -> str:
    """Return a mark for the variable ids of a conversation without a session.

    Another conversation may continue with the same messages. The mark prevents a reference in
    them from leading to a variable of that conversation. Equal conversations have equal marks.
    """
    digest = sha256()
    for message in messages:
        for text in (message.text, *(call.arguments for call in message.tool_calls)):
            digest.update(text.encode(errors="replace") + b"\0")
    return digest.hexdigest()[:6]


def json_value(text: str) -> Any:
    """Return the JSON value of a text, or the text itself if it is not valid JSON."""
    try:
        value = json.loads(text)
        json.dumps(value, allow_nan=False)  # Python's parser accepts NaN
        return value
    except (ValueError, RecursionError):
        return text


_DESCRIPTION = (
    "Read a variable, or a part of it. To pass one on, write $VAR_REF{{id}} as an argument."
)
_PARAMETERS = {
    "type": "object",
    "properties": {
        "id": {"type": "string", "description": "such as var_7"},
        "pointer": {"type": "string", "description": "JSON pointer to a part, such as /rows/7"},
        "start": {"type": "integer", "minimum": 0},
        "length": {"type": "integer", "minimum": 1},
    },
    "required": ["id"],
    "additionalProperties": False,
}


def _preview(text: str, id: str) -> str:
    note = f"{len(text)} characters in {VariableStore.reference(id)}: {READ_VARIABLE}"
    return f"{text[:PREVIEW]}…\n[{note}]"


def _json_text(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))  # the form of results
