"""`LongValues`: what is too long to be shown is kept as a variable, passed on by reference, and
read back on demand.

    a tool's result, 5,000 characters ─▶ variable var_7
    the model sees                       its first 200 characters … [5000 characters in
    $VAR_REF{{var_7}}, …] the model may write                  {"tool": "save", "arguments":
    {"text": "$VAR_REF{{var_7}}"}} or                                   {"tool": "read_variable",
    "arguments": {"id": "var_7"}}

Long arguments are stored in the same way, as references that the model could have written itself.
References count only in arguments that a model wrote; in a value, or in what a user or a tool says,
they stay text. Variables are records of the session's journal, so they outlive the process. Knows
no loop; used by `run`.
"""

import json
from collections.abc import Iterable
from dataclasses import replace
from hashlib import sha256
from typing import Any

from stage0_gateway import JsonPart, Message, TextPart, ToolCall
from stage1_context import MemoryStore, StoreFailed, Transcript, VariableNotFound, VariableStore
from stage2_output import OutputError, extract_json
from stage3_tools.errors import ToolError
from stage3_tools.execution.settings import REFERENCE
from stage3_tools.options import PREVIEW
from stage3_tools.result import ToolResult, is_longer, part_text
from stage3_tools.tool import Tool

READ_VARIABLE = "read_variable"


class LongValues:
    """The long results and arguments of one session.

    Args:
        variables: Where they are kept.
        session_id: Whose they are.

    Attributes:
        reader: The tool with which a model reads them.
    """

    def __init__(self, variables: VariableStore, session_id: str) -> None:
        self._variables = variables
        self._session_id = session_id
        self.reader = reader_of(variables, session_id)

    @classmethod
    def of(cls, transcript: Transcript) -> "LongValues":
        """Those of a conversation, kept in its own journal."""
        store, session_id = transcript.store, transcript.session_id
        mark = ""
        if isinstance(store, MemoryStore) and not session_id:
            mark = mark_of(store.history(session_id))
        return cls(VariableStore(store, mark=mark), session_id)

    async def check(self) -> None:
        """Make sure that something can be kept, before anything is run.

        Raises:
            SessionNotFound: The session is not there.
        """
        await self._variables.check(self._session_id)

    async def keep(self, value: Any) -> str:
        """Keep a value; returns the id of its variable."""
        return await self._variables.put(self._session_id, value)

    async def preview(self, result: ToolResult, longer_than: int) -> tuple[ToolResult, str | None]:
        """A result as the model is shown it, and the variable that holds the rest.

        Args:
            result: The result; what was read from a variable stays as it is.
            longer_than: What has more characters than this together is kept.
        """
        if result.name == READ_VARIABLE or not is_longer(result.output, longer_than):
            return result, None
        if isinstance(result.output, str):
            id = await self.keep(value_of(result.output) if result.is_json else result.output)
            return replace(result, output=_preview(result.output, id)), id
        output, ids = list(result.output), list[str]()
        for place, part in enumerate(output):
            if len(text := part_text(part)) > PREVIEW:
                ids.append(await self.keep(part.value if isinstance(part, JsonPart) else text))
                output[place] = TextPart(_preview(text, ids[-1]))
        return replace(result, output=tuple(output)), ids[0] if ids else None

    async def with_references(self, message: Message, longer_than: int) -> Message:
        """Store the long arguments of a message's calls as variables, and write references in their
        places.

        Args:
            message: The message, which is returned unchanged if it has no long arguments.
            longer_than: Each argument with more characters than this is stored.
        """
        calls = tuple(
            [await self._with_references(call, longer_than) for call in message.tool_calls]
        )
        if calls == message.tool_calls:
            return message
        return replace(
            message, tool_calls=calls, raw_text=None
        )  # the raw text repeats the long arguments

    async def _with_references(self, call: ToolCall, longer_than: int) -> ToolCall:
        if len(call.arguments) <= longer_than:
            return call
        arguments = _object_in(call.arguments)
        long = {name: value for name, value in arguments.items() if _is_long(value, longer_than)}
        if not long:
            return call
        for name, value in long.items():
            arguments[name] = VariableStore.reference(await self.keep(value))
        return replace(call, arguments=_as_json(arguments))

    async def expanded(self, tool: Tool, arguments: Any) -> str:
        """The JSON text of a call's arguments with values instead of references.

        Raises:
            ToolError: A reference leads nowhere ("validation").
        """
        if tool is self.reader:
            return _as_json(arguments)
        try:
            return _as_json(await self._variables.expand(self._session_id, arguments))
        except (VariableNotFound, ValueError) as error:
            raise ToolError("validation", str(error)) from None
        except StoreFailed as error:
            raise ToolError("execution", f"The variables cannot be read: {error}") from error


def mark_of(messages: Iterable[Message]) -> str:
    """A mark for the variables of a conversation that belongs to no session.

    Such a conversation may go on as the beginning of another one: then references in it must not
    lead to what that one keeps. The same conversation has the same mark.
    """
    said = sha256()
    for message in messages:
        for text in (message.text, *(call.arguments for call in message.tool_calls)):
            said.update(text.encode(errors="replace") + b"\0")
    return said.hexdigest()[:6]


def reader_of(variables: VariableStore, session_id: str) -> Tool:
    """The tool `read_variable` for the variables of one session."""

    async def read(arguments: dict[str, Any]) -> str:
        id = arguments["id"].strip().removeprefix("$VAR_REF{{").removesuffix("}}").strip()
        try:
            value = await variables.get(session_id, id)
        except VariableNotFound as error:
            raise ToolError("not_found", str(error)) from None
        value = _pointed_at(value, arguments.get("pointer", ""))
        text = value if isinstance(value, str) else _as_json(value)
        start = arguments.get("start", 0)
        part = text[start : start + arguments.get("length", len(text))]
        return (
            part
            if part == text
            else f"{part}\n[characters {start} to {start + len(part)} of {len(text)}]"
        )

    return Tool(READ_VARIABLE, _DESCRIPTION, _PARAMETERS, read, effect="read")


_DESCRIPTION = (
    "Read a variable, or a part of it. To pass one on, write $VAR_REF{{id}} as an argument."
)
_PARAMETERS = {
    "type": "object",
    "properties": {
        "id": {"type": "string", "description": "such as var_7"},
        "start": {"type": "integer", "minimum": 0},
        "length": {"type": "integer", "minimum": 1},
        "pointer": {"type": "string", "description": "JSON pointer"},
    },
    "required": ["id"],
    "additionalProperties": False,
}


def _preview(text: str, id: str) -> str:
    return f"{text[:PREVIEW]}…\n[{len(text)} characters in {VariableStore.reference(id)}: {READ_VARIABLE}]"


def value_of(text: str) -> Any:
    """The JSON value in a text, or the text itself if it is not valid JSON."""
    try:
        value = json.loads(text)
        json.dumps(value, allow_nan=False)  # Python reads NaN, which is not JSON
        return value
    except (ValueError, RecursionError):
        return text


def _object_in(text: str) -> dict[str, Any]:
    """The arguments in a text; {} for a text that no tool is run on."""
    try:
        found = extract_json(text)
    except OutputError:
        return {}
    is_whole = found.source == "bare" and found.complete
    return found.value if is_whole and isinstance(found.value, dict) else {}


def _is_long(value: Any, longer_than: int) -> bool:
    """Whether an argument is stored as a variable; not with a reference in it, which is not
    expanded in a value.
    """
    text = value if isinstance(value, str) else _as_json(value)
    return len(text) > longer_than and REFERENCE not in text


def _pointed_at(value: Any, pointer: str) -> Any:
    """The part of a value that a JSON pointer (RFC 6901) names."""
    if pointer and not pointer.startswith("/"):
        raise ToolError(
            "validation", f"{pointer!r} is not a JSON pointer: one begins with '/', or is empty."
        )
    for step in pointer.split("/")[1:]:
        step = step.replace("~1", "/").replace("~0", "~")
        if isinstance(value, dict) and step in value:
            value = value[step]
        elif isinstance(value, list) and step.isdecimal() and int(step) < len(value):
            value = value[int(step)]
        else:
            raise ToolError(
                "not_found", f"{pointer!r} leads nowhere at {step!r}. {_choices(value)}"
            )
    return value


def _choices(value: Any) -> str:
    """The next steps that a JSON pointer may take from a value."""
    if isinstance(value, dict):
        return f"There are the keys {', '.join(list(value)[:20]) or 'none'}."
    return (
        f"There are {len(value)} elements."
        if isinstance(value, list)
        else "There is no object or list."
    )


def _as_json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))  # as results are written
