"""Anthropic's messages in reverse: decode requests, encode replies.

The mirror of `wire/anthropic.py`; pure. An invalid request raises an error that names the field.
Unknown blocks become provider parts. A user message becomes several messages: one for each tool
result, and then the rest.

Not covered: fields of a request without an attribute in `ChatRequest` and its parts; parts after a
tool call, which move before the calls.
Arguments of a reply that are not a JSON object are sent as text; a real server would repair or hide
them.
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from stage0_gateway.json_fields import as_integer, as_list, as_mapping, as_number, as_text
from stage0_gateway.messages import Message, as_content
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
from stage0_gateway.request import ChatRequest, Reasoning, ToolSpec
from stage0_gateway.response import ChatResponse, Usage
from stage0_gateway.server.encoding import arguments_value, event, parts_of, split, without_none
from stage0_gateway.wire.anthropic import NAME as NAME
from stage0_gateway.wire.anthropic_reply import citation
from stage0_gateway.wire.provider_data import deep_merge, own_data
from stage0_gateway.wire.reasoning import read_reasoning

_TOOL_BLOCKS = ("tool_use", "tool_result")
_CHOICES = {"auto": "auto", "none": "none", "any": "required"}
_REASONS = {"length": "max_tokens", "refusal": "refusal", "pause": "pause_turn"}
_ERRORS = {401: "authentication_error", 429: "rate_limit_error", 529: "overloaded_error"}


def is_path(path: str) -> bool:
    """Return whether this path, under any base, is that of messages."""
    return path.partition("?")[0].rstrip("/").endswith("/messages")


# ---- the request


def decode_request(body: Mapping[str, Any], path: str = "") -> ChatRequest:
    """Decode a messages request.

    Raises:
        ValueError: The body is invalid. The text names the field.
    """
    body = as_mapping(body, "The body")
    if body.get("messages") is None:
        raise ValueError("'messages' is missing.")
    plain_messages = as_list(body["messages"], "'messages'")
    messages = [message for plain in plain_messages for message in _messages(plain)]
    if system := body.get("system"):
        messages.insert(0, Message.system(system if isinstance(system, str) else _parts(system)))
    stop = as_list(body.get("stop_sequences"), "'stop_sequences'")
    return ChatRequest(
        model=as_text(body.get("model"), "'model'"),
        messages=tuple(messages),
        tools=tuple(_tools(as_list(body.get("tools"), "'tools'"))),
        tool_choice=_tool_choice(body.get("tool_choice")),
        temperature=as_number(body.get("temperature"), "'temperature'"),
        max_tokens=as_integer(body.get("max_tokens"), "'max_tokens'"),
        response_schema=_response_schema(body.get("output_config")),
        stop=tuple(as_text(text, "'stop_sequences'") for text in stop),
        reasoning=_reasoning(body),
    )


def _messages(plain: Any) -> Iterator[Message]:
    plain = as_mapping(plain, "A message")
    role, content = plain.get("role"), plain.get("content")
    if role not in ("system", "user", "assistant"):
        roles = "system, user and assistant"
        raise ValueError(f"A message has the role {role!r}; the roles are {roles}.")
    if isinstance(content, str):
        yield Message(role, content)
        return
    blocks = _blocks(content)
    tool_blocks = [block for block in blocks if block.get("type") in _TOOL_BLOCKS]
    others = tuple(_part(block) for block in blocks if block.get("type") not in _TOOL_BLOCKS)
    if role == "assistant":
        yield Message.assistant(as_content(others), map(_call, tool_blocks))
    else:
        yield from map(_result, tool_blocks)
        if others or not tool_blocks:
            yield Message(role, others)


def _blocks(content: Any) -> list[Mapping[str, Any]]:
    return [as_mapping(block, "A block of 'content'") for block in as_list(content, "'content'")]


def _parts(content: Any) -> tuple[Part, ...]:
    return tuple(map(_part, _blocks(content)))


def _result(block: Mapping[str, Any]) -> Message:
    content = block.get("content")
    call_id = as_text(block.get("tool_use_id"), "'tool_use_id'")
    content = content if isinstance(content, str) else _parts(content)
    return Message.tool(content, call_id, is_error=block.get("is_error") is True)


def _part(block: Mapping[str, Any]) -> Part:
    """Decode a block; unknown kinds are stored unchanged."""
    match block:
        case {"type": "text", "text": str(text)}:
            cited = as_list(block.get("citations"), "'citations'")
            return TextPart(text, tuple(map(citation, cited)))
        case {"type": "thinking", "thinking": str(text)}:
            return ThinkingPart(text)
        case {"type": "image" | "document" as kind, "source": dict(source)}:
            return _file(kind, source, block) or ProviderPart(NAME, block)
    return ProviderPart(NAME, block)


def _file(kind: str, source: Mapping[str, Any], block: Mapping[str, Any]) -> Part | None:
    """Decode an image or a document; None for an unknown source."""
    match source:
        case {"type": "base64", "media_type": str(media_type), "data": str(data)}:
            fields: dict[str, Any] = {"data": data, "media_type": media_type}
        case {"type": "url", "url": str(url)}:
            fields = {"url": url}
        case _:
            return None
    if kind == "image":
        return ImagePart(**fields)
    return DocumentPart(name=as_text(block.get("title"), "'title'") or "document", **fields)


def _call(block: Mapping[str, Any]) -> ToolCall:
    match block:
        case {"id": str(call_id), "name": str(name), "input": dict(arguments)}:
            return ToolCall(call_id, name, json.dumps(arguments, ensure_ascii=False))
    raise ValueError("A 'tool_use' needs an 'id', a 'name' and an object as its 'input'.")


def _tools(tools: Iterable[Any]) -> Iterator[ToolSpec]:
    """Yield the client's tools; tools of the server are ignored."""
    for tool in tools:
        match tool:
            case {"name": str(name), "input_schema": dict(schema)}:
                description = as_text(tool.get("description"), f"The 'description' of {name}")
                yield ToolSpec(name, description, schema)
            case {"type": str(kind)} if kind != "custom":
                pass
            case _:
                needed = "a 'name' and an object as its 'input_schema'"
                raise ValueError(f"Each of 'tools' needs {needed}.")


def _tool_choice(choice: Any) -> str | None:
    match choice:
        case {"type": "tool", "name": str(name)}:
            return name
        case {"type": str(kind)}:
            return _CHOICES.get(kind)
    return None


def _response_schema(output_config: Any) -> Mapping[str, Any] | None:
    match output_config:
        case {"format": {"type": "json_schema", "schema": dict(schema)}}:
            return schema
    return None


def _reasoning(body: Mapping[str, Any]) -> Reasoning | None:
    output_config, thinking = body.get("output_config"), body.get("thinking")
    if not isinstance(thinking, Mapping):
        return None
    effort = output_config.get("effort") if isinstance(output_config, Mapping) else None
    return read_reasoning(effort, thinking.get("budget_tokens"))


# ---- the reply


def encode_reply(reply: ChatResponse) -> dict[str, Any]:
    """Encode a whole message."""
    return {**_head(reply), "content": _reply_blocks(reply), **_end(reply), **_usage(reply.usage)}


def encode_stream(reply: ChatResponse, *, piece: int = 8) -> Iterator[str]:
    """Encode a message as events: its head, the blocks, and the finish reason."""
    for data in _events(reply, piece):
        yield event(data, data["type"])


def encode_error(status: int, message: str) -> dict[str, Any]:
    """Encode an error."""
    kind = _ERRORS.get(status) or ("api_error" if status >= 500 else "invalid_request_error")
    return {"type": "error", "error": {"type": kind, "message": message}}


def _head(reply: ChatResponse) -> dict[str, Any]:
    identity = {"id": reply.request_id or "msg_0", "model": reply.model or ""}
    return {**identity, "type": "message", "role": "assistant"}


def _end(reply: ChatResponse) -> dict[str, Any]:
    """Return the finish reason, and the explanation of a refusal."""
    usual = "refusal" if reply.refusal else "tool_use" if reply.tool_calls else "end_turn"
    reason = reply.raw_finish_reason or _REASONS.get(reply.finish_reason, usual)
    end: dict[str, Any] = {"stop_reason": reason, "stop_sequence": None}
    if reply.refusal:
        end["stop_details"] = {"type": "refusal", "explanation": reply.refusal}
    return end


def _reply_blocks(reply: ChatResponse) -> list[dict[str, Any]]:
    blocks = map(_reply_block, parts_of(reply.message))
    return [*filter(None, blocks), *map(_reply_call, reply.tool_calls)]


def _reply_block(part: Part) -> dict[str, Any] | None:
    """Encode a part; None for files and for parts of another provider."""
    match part:
        case TextPart(text, citations):
            cited = {"citations": [*map(_reply_citation, citations)]} if citations else {}
            return {"type": "text", "text": text, **cited}
        case ThinkingPart(text):
            return {"type": "thinking", "thinking": text, "signature": "", **own_data(part, NAME)}
        case ProviderPart(wire, data) if wire == NAME:
            return dict(data)
    return None


def _reply_call(call: ToolCall) -> dict[str, Any]:
    arguments = arguments_value(call.arguments)
    block = {"type": "tool_use", "id": call.id, "name": call.name, "input": arguments}
    return deep_merge(block, own_data(call, NAME))


def _reply_citation(citation: Citation) -> dict[str, Any]:
    cited = {"url": citation.url, "title": citation.title, "cited_text": citation.quote}
    return own_data(citation, NAME) or {"type": "web_search_result_location", **without_none(cited)}


def _usage(usage: Usage | None) -> dict[str, Any]:
    if usage is None:
        return {}
    counts: dict[str, Any] = {
        "input_tokens": usage.input_tokens,
        "cache_creation_input_tokens": usage.cache_write_tokens,
        "cache_read_input_tokens": usage.cached_input_tokens,
        "output_tokens": usage.output_tokens,
    }
    if usage.reasoning_tokens is not None:
        counts["output_tokens_details"] = {"thinking_tokens": usage.reasoning_tokens}
    return {"usage": without_none(counts)}


def _events(reply: ChatResponse, piece: int) -> Iterator[dict[str, Any]]:
    usage = _usage(reply.usage)
    head = {**_head(reply), "content": [], "stop_reason": None, "stop_sequence": None, **usage}
    yield {"type": "message_start", "message": head}
    yield {"type": "ping"}
    for index, block in enumerate(_reply_blocks(reply)):
        start, deltas = _start_and_deltas(block, piece)
        yield {"type": "content_block_start", "index": index, "content_block": start}
        for delta in deltas:
            yield {"type": "content_block_delta", "index": index, "delta": delta}
        yield {"type": "content_block_stop", "index": index}
    yield {"type": "message_delta", "delta": _end(reply), **usage}
    yield {"type": "message_stop"}


def _start_and_deltas(
    block: Mapping[str, Any], piece: int
) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Return the start of a block, and the deltas that complete it."""
    match block:
        case {"type": "text", "text": text}:
            deltas = [{"type": "text_delta", "text": delta} for delta in split(text, piece)]
            for cited in block.get("citations", ()):
                deltas.append({"type": "citations_delta", "citation": cited})
            return {"type": "text", "text": ""}, deltas
        case {"type": "thinking", "thinking": text, "signature": signature}:
            deltas = [{"type": "thinking_delta", "thinking": delta} for delta in split(text, piece)]
            if signature:
                deltas.append({"type": "signature_delta", "signature": signature})
            return {**block, "thinking": "", "signature": ""}, deltas
        case {"input": value}:
            # Without arguments, a server sends one empty delta.
            text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
            pieces = ["", *split(text, piece)] if value else [""]
            deltas = [{"type": "input_json_delta", "partial_json": delta} for delta in pieces]
            return {**block, "input": {}}, deltas
    return dict(block), []
