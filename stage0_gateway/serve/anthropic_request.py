"""A messages request, read: the first half of the room `serve/anthropic.py`.

Pure. Decides nothing about the conversation: it only refuses what is not a request, with a text that says
which field is wrong. What our words cannot hold is kept beside them and goes back as it came: fields of the
body in `provider_options`, fields of a block in its `provider_data`, whole blocks as `ProviderPart`s.

A message of the user becomes several: each tool result in it is a message of its own. Not kept: marks on a
tool result as a whole, for which a `Message` has no place, and where a system message stood.
"""

import json
from collections.abc import Iterable, Mapping
from itertools import groupby
from typing import Any

from stage0_gateway.fields import a_list, a_mapping, a_number, a_text, needed_text
from stage0_gateway.messages import Message
from stage0_gateway.parts import (
    Citation,
    DocumentPart,
    ImagePart,
    Part,
    ProviderPart,
    TextPart,
    ThinkingPart,
    ToolCall,
)
from stage0_gateway.request import ChatRequest, ToolSpec
from stage0_gateway.serve.asked import from_order, kept, whole_number, with_options
from stage0_gateway.wire.anthropic import NAME, encode

_APART = {"messages", "system", "stream"}
_CHOICES = {"auto": "auto", "none": "none", "any": "required"}


def decode_request(body: Mapping[str, Any], path: str = "") -> ChatRequest:
    """Read a messages request; what this project has no word for is kept for the way back.

    Raises:
        ValueError: The body is not such a request; the text names the field.
    """
    body = a_mapping(body, "The body")
    plain = a_list(body.get("messages"), "'messages'")
    if body.get("messages") is None:  # none at all may be left of empty messages, which are not sent
        raise ValueError("'messages' is missing.")
    said = (message for index, one in enumerate(plain) for message in _messages(one, f"messages[{index}]"))
    tools = (_tool(tool, f"tools[{i}]") for i, tool in enumerate(a_list(body.get("tools"), "'tools'")))
    stop = a_list(body.get("stop_sequences"), "'stop_sequences'")
    request = ChatRequest(
        model=a_text(body.get("model"), "'model'"),
        messages=(*_system(body.get("system")), *said),
        tools=tuple(tool for tool in tools if tool),
        tool_choice=_tool_choice(body.get("tool_choice")),
        temperature=a_number(body.get("temperature"), "'temperature'"),
        max_tokens=whole_number(body.get("max_tokens"), "'max_tokens'"),
        response_schema=_response_schema(body.get("output_config")),
        stop=tuple(a_text(one, "'stop_sequences'") for one in stop),
    )
    return with_options(request, body, encode, _APART)


def _system(system: Any) -> tuple[Message, ...]:
    if not system:
        return ()
    return (
        Message.system(system if isinstance(system, str) else _parts(_blocks(system, "system"), "system")),
    )


def _messages(plain: Any, where: str) -> Iterable[Message]:
    plain = a_mapping(plain, where)
    role, content = plain.get("role"), plain.get("content")
    if role not in ("system", "user", "assistant"):
        raise ValueError(f"{where} has the role {role!r}; the roles are user and assistant.")
    where = f"{where}.content"
    if isinstance(content, str):
        yield Message(role, content)
    elif role == "assistant":
        yield _assistant(_blocks(content, where), where)
    else:
        runs = groupby(_blocks(content, where), key=lambda block: block.get("type") == "tool_result")
        for is_result, blocks in runs:
            if is_result:
                yield from (_result(block, where) for block in blocks)
            else:
                yield Message(role, _parts(blocks, where))


def _blocks(content: Any, where: str) -> list[Mapping[str, Any]]:
    return [a_mapping(block, f"A block of {where}") for block in a_list(content, where)]


def _parts(blocks: Iterable[Mapping[str, Any]], where: str) -> tuple[Part, ...]:
    return tuple(_part(block, where) for block in blocks)


def _assistant(blocks: list[Mapping[str, Any]], where: str) -> Message:
    if not any(block.get("type") == "tool_use" for block in blocks):
        return Message.assistant(_parts(blocks, where))
    items = (_call(each, where) if each.get("type") == "tool_use" else _part(each, where) for each in blocks)
    return from_order(items, NAME)


def _result(block: Mapping[str, Any], where: str) -> Message:
    content = block.get("content")
    said = content if isinstance(content, str) else _parts(_blocks(content, f"{where}.content"), where)
    answers = needed_text(block, "tool_use_id", f"{where}.tool_result")
    return Message.tool(said, answers, is_error=block.get("is_error") is True)


def _part(block: Mapping[str, Any], where: str) -> Part:
    match block.get("type"):
        case "text":
            return _text(block, where)
        case "thinking":
            rest = {name: value for name, value in block.items() if name not in ("type", "thinking")}
            thought = a_text(block.get("thinking"), f"{where}.thinking")
            return ThinkingPart(thought, {NAME: rest} if rest else None)
        case "image" | "document":
            return _file(block)
        case _:
            return ProviderPart(NAME, block)


def _text(block: Mapping[str, Any], where: str) -> TextPart:
    text = a_text(block.get("text"), f"{where}.text")
    cited = [
        a_mapping(one, f"{where}.citations") for one in a_list(block.get("citations"), f"{where}.citations")
    ]
    written = {"type": "text", "text": text, "citations": cited}
    return TextPart(text, tuple(map(_citation, cited)), kept(NAME, block, written))


def _citation(plain: Mapping[str, Any]) -> Citation:
    title = plain.get("title") or plain.get("document_title")
    return Citation(plain.get("url"), title, plain.get("cited_text"), {NAME: dict(plain)})


def _file(block: Mapping[str, Any]) -> Part:
    """A picture or document whose data or address is told; what the server holds already is kept as it is."""
    match block.get("source"):
        case {"type": "base64", "data": str(data), "media_type": str(media_type)}:
            source: dict[str, Any] = {"type": "base64", "media_type": media_type, "data": data}
        case {"type": "url", "url": str(url)} if url:
            source = {"type": "url", "url": url}
        case _:
            return ProviderPart(NAME, block)
    fields = {name: value for name, value in source.items() if name != "type"}
    if block["type"] == "image":
        return ImagePart(**fields, provider_data=kept(NAME, block, {"type": "image", "source": source}))
    title = block.get("title")
    name = title if isinstance(title, str) and title else "document"
    written = {"type": "document", "title": name, "source": source}
    return DocumentPart(**fields, name=name, provider_data=kept(NAME, block, written))


def _call(block: Mapping[str, Any], where: str) -> ToolCall:
    call_id = needed_text(block, "id", f"{where}.tool_use")
    name = needed_text(block, "name", f"{where}.tool_use")
    given = a_mapping(block.get("input") or {}, f"{where}.tool_use.input")
    written = {"type": "tool_use", "id": call_id, "name": name, "input": given}
    return ToolCall(call_id, name, json.dumps(given, ensure_ascii=False), kept(NAME, block, written))


def _tool(plain: Any, where: str) -> ToolSpec | None:
    """A tool of the client's; None for one that the server runs itself."""
    plain = a_mapping(plain, where)
    if plain.get("input_schema") is None and plain.get("type") not in (None, "custom"):
        return None
    name = needed_text(plain, "name", where)
    description = a_text(plain.get("description"), f"{where}.description")
    return ToolSpec(name, description, a_mapping(plain.get("input_schema"), f"{where}.input_schema"))


def _tool_choice(choice: Any) -> str | None:
    if choice is None:
        return None
    kind = a_text(a_mapping(choice, "'tool_choice'").get("type"), "'tool_choice.type'")
    return needed_text(choice, "name", "'tool_choice'") if kind == "tool" else _CHOICES.get(kind)


def _response_schema(output: Any) -> Mapping[str, Any] | None:
    wish = None if output is None else a_mapping(output, "'output_config'").get("format")
    if wish is None or a_mapping(wish, "'output_config.format'").get("type") != "json_schema":
        return None
    return a_mapping(wish.get("schema"), "'output_config.format.schema'")
