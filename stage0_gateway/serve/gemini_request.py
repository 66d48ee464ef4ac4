"""A generateContent request, read: the first half of the room `serve/gemini.py`.

Pure. Decides nothing about the conversation: it only refuses what is not a request, with a text that says
which field is wrong. Fields are read in both spellings that Google takes, `systemInstruction` and
`system_instruction`. What our words cannot hold is kept beside them: fields of the body in
`provider_options`, fields of a part in its `provider_data`, whole parts as `ProviderPart`s.

The model stands in the path. Calls without an id are numbered in their message as the other side numbers
them, and a result without one answers the first open call of its name. An answer that is neither
`{"output": text}` nor `{"error": text}` becomes its JSON text. Google's own kind of schema, in
`responseSchema`, stays in the options.
"""

import json
import re
from collections.abc import Iterable, Mapping
from itertools import count
from typing import Any
from urllib.parse import unquote

from stage0_gateway.fields import a_list, a_mapping, a_number, a_text, needed_text
from stage0_gateway.messages import Message
from stage0_gateway.parts import DocumentPart, ImagePart, Part, ProviderPart, TextPart, ThinkingPart, ToolCall
from stage0_gateway.request import ChatRequest, ToolSpec
from stage0_gateway.serve.asked import as_content, from_order, kept, whole_number, with_options
from stage0_gateway.wire.gemini import NAME, encode

_APART = {"model", "contents", "systemInstruction"}
_PATH = re.compile(r"/models/(?P<model>.+):(?P<method>generateContent|streamGenerateContent)$")
_SNAKE = re.compile(r"_([a-z])")
_CHOICES = {"AUTO": "auto", "NONE": "none", "ANY": "required"}
_GOOGLES_TYPES = {"STRING", "NUMBER", "INTEGER", "BOOLEAN", "ARRAY", "OBJECT", "NULL"}

Plain = Mapping[str, Any]


def in_path(path: str) -> tuple[str, str] | None:
    """The model and the method that a path names; None for any other path."""
    found = _PATH.search(path.partition("?")[0].rstrip("/"))
    return (unquote(found["model"]), found["method"]) if found else None


def decode_request(body: Plain, path: str = "") -> ChatRequest:
    """Read a generateContent request; what this project has no word for is kept for the way back.

    Raises:
        ValueError: The body is not such a request; the text names the field.
    """
    body = _one_way(a_mapping(body, "The body"))
    contents = _several(body.get("contents"), "'contents'")
    if body.get("contents") is None:  # none at all may be left of empty messages, which are not sent
        raise ValueError("'contents' is missing.")
    named = in_path(path)
    wishes = body.get("generationConfig") or {}
    stop = a_list(wishes.get("stopSequences"), "'stopSequences'")
    request = ChatRequest(
        model=named[0] if named else a_text(body.get("model"), "'model'"),
        messages=(*_system(body.get("systemInstruction")), *_conversation(contents)),
        tools=tuple(_tools(body.get("tools") or [])),
        tool_choice=_tool_choice(body.get("toolConfig")),
        temperature=a_number(wishes.get("temperature"), "'temperature'"),
        max_tokens=whole_number(wishes.get("maxOutputTokens"), "'maxOutputTokens'"),
        response_schema=_response_schema(wishes.get("responseJsonSchema")),
        stop=tuple(a_text(one, "'stopSequences'") for one in stop),
    )
    return with_options(request, body, encode, _APART)


# ---- two spellings, and lists of one --------------------------------------------------------------------


def _camel(plain: Any, where: str) -> dict[str, Any]:
    """The object with its own fields, and no deeper ones, in the first spelling."""
    fields = a_mapping(plain, where).items()
    return {_SNAKE.sub(lambda found: found[1].upper(), name): value for name, value in fields}


def _several(value: Any, where: str) -> list[Any]:
    """A list; Google takes an object for a list of one."""
    return [value] if isinstance(value, Mapping) else a_list(value, where)


def _one_way(body: Plain) -> dict[str, Any]:
    """The body with one spelling for what has two, as deep as our words reach."""
    plain = _camel(body, "The body")
    if plain.get("generationConfig") is not None:
        plain["generationConfig"] = _camel(plain["generationConfig"], "'generationConfig'")
    if plain.get("tools") is not None:
        plain["tools"] = [_one_way_tool(tool) for tool in _several(plain["tools"], "'tools'")]
    if plain.get("toolConfig") is not None:
        plain["toolConfig"] = config = _camel(plain["toolConfig"], "'toolConfig'")
        if config.get("functionCallingConfig") is not None:
            config["functionCallingConfig"] = _camel(
                config["functionCallingConfig"], "'functionCallingConfig'"
            )
    return plain


def _one_way_tool(tool: Any) -> dict[str, Any]:
    plain = _camel(tool, "A tool")
    if (functions := plain.get("functionDeclarations")) is not None:
        listed = _several(functions, "'functionDeclarations'")
        plain["functionDeclarations"] = [_camel(one, "A function declaration") for one in listed]
    return plain


# ---- the conversation -----------------------------------------------------------------------------------


def _system(content: Any) -> tuple[Message, ...]:
    if not content:
        return ()
    parts = [_part(part) for part in _parts(a_mapping(content, "'systemInstruction'"), "'systemInstruction'")]
    return (Message.system(as_content(parts)),)


def _parts(content: Plain, where: str) -> list[dict[str, Any]]:
    return [_camel(part, f"A part of {where}") for part in _several(content.get("parts"), f"{where}.parts")]


def _conversation(contents: Iterable[Any]) -> Iterable[Message]:
    unanswered: list[ToolCall] = []
    for index, content in enumerate(contents):
        content, where = a_mapping(content, f"contents[{index}]"), f"contents[{index}]"
        role, parts = content.get("role"), _parts(content, where)
        if role == "model":
            message = _said(parts)
            unanswered += message.tool_calls
            yield message
        elif role in (None, "", "user", "function"):
            yield from _heard(parts, unanswered)
        else:
            raise ValueError(f"{where} has the role {role!r}; the roles are user and model.")


def _said(parts: Iterable[Plain]) -> Message:
    number = count()
    items = (_call(part, next(number)) if "functionCall" in part else _part(part) for part in parts)
    return from_order(items, NAME)


def _heard(parts: Iterable[Plain], unanswered: list[ToolCall]) -> Iterable[Message]:
    """The user's words, and results of tools with the pictures that follow them."""
    groups: list[tuple[Plain | None, list[Part]]] = []
    for part in parts:
        if "functionResponse" in part:
            answer = _camel(part["functionResponse"], "A 'functionResponse'")
            groups.append((answer, [_part(one) for one in _parts(answer, "'functionResponse'")]))
        elif groups and (groups[-1][0] is None or "text" not in part):
            groups[-1][1].append(_part(part))
        else:
            groups.append((None, [_part(part)]))
    for result, said in groups:
        yield Message.user(as_content(said)) if result is None else _result(result, said, unanswered)


def _result(answer: Plain, beside: list[Part], unanswered: list[ToolCall]) -> Message:
    name = needed_text(answer, "name", "'functionResponse'")
    given = a_text(answer.get("id"), "'functionResponse.id'")
    fits = (call for call in unanswered if (call.id == given if given else call.name == name))
    if call := next(fits, None):
        unanswered.remove(call)
    text, is_error = _answer(a_mapping(answer.get("response") or {}, "'functionResponse.response'"))
    content = as_content([*([TextPart(text)] if text else []), *beside])
    return Message.tool(content, call.id if call else given or name, is_error=is_error, name=name)


def _answer(response: Plain) -> tuple[str, bool]:
    match response:
        case {"output": str(text)} | {"error": str(text)} if len(response) == 1:
            return text, "error" in response
        case _:
            return json.dumps(response, ensure_ascii=False), False


def _part(part: Plain) -> Part:
    """A part whose own fields are in the first spelling."""
    match part:
        case {"text": str(text), "thought": True}:
            return ThinkingPart(text, kept(NAME, part, {"text": text}))
        case {"text": str(text)}:
            return TextPart(text, provider_data=kept(NAME, part, {"text": text}))
        case {"inlineData": Mapping() as given}:
            return _file(part, "inlineData", _camel(given, "'inlineData'"))
        case {"fileData": Mapping() as given}:
            return _file(part, "fileData", _camel(given, "'fileData'"))
        case _:
            return ProviderPart(NAME, part)


def _file(part: Plain, kind: str, given: Plain) -> Part:
    """A picture or any other file, as its type says; without a type it is kept as it is."""
    match given:
        case {"mimeType": str(media_type), "data": str(data)} if kind == "inlineData":
            fields: dict[str, Any] = {"media_type": media_type, "data": data}
            written = {"mimeType": media_type, "data": data}
        case {"mimeType": str(media_type), "fileUri": str(url)} if kind == "fileData" and url:
            fields, written = {"media_type": media_type, "url": url}, {"mimeType": media_type, "fileUri": url}
        case _:
            return ProviderPart(NAME, part)
    data_kept = kept(NAME, {**part, kind: given}, {kind: written})
    if media_type.startswith("image/"):
        return ImagePart(**fields, provider_data=data_kept)
    return DocumentPart(**fields, provider_data=data_kept)


def _call(part: Plain, number: int) -> ToolCall:
    call = _camel(part["functionCall"], "A 'functionCall'")
    name = needed_text(call, "name", "'functionCall'")
    arguments = a_mapping(call.get("args") or {}, "'functionCall.args'")
    data = kept(NAME, {**part, "functionCall": call}, {"functionCall": {"name": name, "args": arguments}})
    call_id = a_text(call.get("id"), "'functionCall.id'") or f"call_{number}"
    return ToolCall(call_id, name, json.dumps(arguments, ensure_ascii=False), data)


# ---- tools and wishes -----------------------------------------------------------------------------------


def _tools(tools: Iterable[Plain]) -> Iterable[ToolSpec]:
    """The functions among the tools; the others are the server's own."""
    for tool in tools:
        for function in tool.get("functionDeclarations") or []:
            name = needed_text(function, "name", "A function declaration")
            yield ToolSpec(
                name, a_text(function.get("description"), f"{name}.description"), _parameters(function)
            )


def _parameters(function: Plain) -> Plain:
    if (schema := function.get("parametersJsonSchema")) is None:
        schema = _json_schema(function.get("parameters") or {"type": "object", "properties": {}})
    return a_mapping(schema, "'parameters'")


def _json_schema(schema: Any) -> Any:
    """Google's own kind of schema says its types in capitals."""
    if isinstance(schema, Mapping):
        return {name: _json_schema(one) for name, one in schema.items()} | _type_of(schema)
    return [_json_schema(one) for one in schema] if isinstance(schema, list) else schema


def _type_of(schema: Plain) -> dict[str, str]:
    kind = schema.get("type")
    return {"type": kind.lower()} if isinstance(kind, str) and kind in _GOOGLES_TYPES else {}


def _tool_choice(config: Plain | None) -> str | None:
    calling = (config or {}).get("functionCallingConfig") or {}
    mode = a_text(calling.get("mode"), "'functionCallingConfig.mode'").upper()
    names = a_list(calling.get("allowedFunctionNames"), "'allowedFunctionNames'")
    if mode == "ANY" and len(names) == 1:
        return a_text(names[0], "'allowedFunctionNames'")
    return _CHOICES.get(mode)


def _response_schema(schema: Any) -> Plain | None:
    return None if schema is None else a_mapping(schema, "'responseJsonSchema'")
