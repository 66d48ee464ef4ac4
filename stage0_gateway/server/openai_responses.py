"""OpenAI's Responses format in reverse: decode requests, encode replies.

The mirror of `wire/openai_responses.py`; pure. An invalid request raises an error that names the
field. The items of one reply become one message. Items of unknown kinds become provider parts.

Not covered: fields of a request without an attribute in `ChatRequest` and its parts; replies that
the server stores, and their other paths: see `state`. Each text of a reply is a message of its own.
Files, and provider parts of other formats, are omitted.
"""

from collections.abc import Iterable, Iterator, Mapping
from itertools import groupby
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
    file_source,
)
from stage0_gateway.request import NO_PARAMETERS, ChatRequest, Reasoning, ToolSpec
from stage0_gateway.response import ChatResponse, Usage, known_finish_reason
from stage0_gateway.server.encoding import event, parts_of, split
from stage0_gateway.server.format import ANY_OBJECT
from stage0_gateway.server.openai import encode_error as encode_error
from stage0_gateway.wire.openai_responses import NAME as NAME
from stage0_gateway.wire.openai_responses_reply import OpenAIResponsesReader
from stage0_gateway.wire.provider_data import deep_merge, own_data, with_calls
from stage0_gateway.wire.reasoning import read_reasoning

_REASONS = {"length": "max_output_tokens", "refusal": "content_filter", "error": "error"}
_WITH_ID = ("message", "reasoning", "function_call")
_COMPLETE = ("stop", "tool_calls", "unknown")


def is_path(path: str) -> bool:
    """Return whether this path, under any base, is that of responses."""
    return path.partition("?")[0].rstrip("/").endswith("/responses")


# ---- the request


def decode_request(body: Mapping[str, Any], path: str = "") -> ChatRequest:
    """Decode a responses request.

    Raises:
        ValueError: The body is invalid. The text names the field.
    """
    body = as_mapping(body, "The body")
    items = body.get("input")
    if isinstance(items, str):
        items = [{"role": "user", "content": items}]
    messages = [*_messages(as_list(items, "'input'"))]
    if not messages:
        raise ValueError("'input' must hold at least one message.")
    if instructions := as_text(body.get("instructions"), "'instructions'"):
        messages.insert(0, Message.system(instructions))
    return ChatRequest(
        model=as_text(body.get("model"), "'model'"),
        messages=tuple(messages),
        tools=tuple(_tools(as_list(body.get("tools"), "'tools'"))),
        tool_choice=_tool_choice(body.get("tool_choice")),
        temperature=as_number(body.get("temperature"), "'temperature'"),
        max_tokens=as_integer(body.get("max_output_tokens"), "'max_output_tokens'"),
        response_schema=_response_schema(body.get("text")),
        reasoning=_reasoning(body.get("reasoning")),
        cache_key=as_text(body.get("prompt_cache_key"), "'prompt_cache_key'") or None,
    )


def _reasoning(setting: Any) -> Reasoning | None:
    return read_reasoning(setting.get("effort")) if isinstance(setting, Mapping) else None


def _messages(items: Iterable[Any]) -> Iterator[Message]:
    """Yield the messages; the items of one reply are one message of the model."""
    checked = (as_mapping(plain, "An item of 'input'") for plain in items)
    for is_reply, group in groupby(checked, key=_is_reply):
        if is_reply:
            yield _reply(group)
        else:
            yield from map(_message, group)


def _is_reply(item: Mapping[str, Any]) -> bool:
    """Return whether an item belongs to a reply of the model."""
    kind = item.get("type") or "message"
    return item.get("role") == "assistant" if kind == "message" else kind != "function_call_output"


def _reply(items: Iterable[Mapping[str, Any]]) -> Message:
    """Decode items like those of a reply, from which clients copy them."""
    reader = OpenAIResponsesReader()
    reader.builder.is_whole = True
    try:
        reader.feed_whole({"output": [*map(_reply_item, items)]})
    except (LookupError, TypeError, AttributeError) as error:
        raise ValueError(f"An item of 'input' is invalid: {error}.") from error
    return reader.response().message


def _reply_item(item: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return an item of a reply; a message may be shorter than in a reply."""
    match item:
        case {"role": "assistant", "content": str(text)}:
            return {"type": "message", **item, "content": [{"type": "output_text", "text": text}]}
        case {"role": "assistant"}:
            return {"type": "message", **item}
        case {"type": "function_call", "call_id": str(), "name": str(), "arguments": str()}:
            return item
        case {"type": "function_call"}:
            raise ValueError("A 'function_call' needs 'call_id', 'name' and 'arguments'.")
    return item


def _message(item: Mapping[str, Any]) -> Message:
    if item.get("type") == "function_call_output":
        call_id = as_text(item.get("call_id"), "'call_id'")
        return Message.tool(_content(item.get("output")), call_id)
    match item.get("role"):
        case "system" | "developer":
            return Message.system(_content(item.get("content")))
        case "user":
            return Message.user(_content(item.get("content")))
        case role:
            roles = "system, developer, user and assistant"
            raise ValueError(f"A message has the role {role!r}; the roles are {roles}.")


def _content(content: Any) -> str | tuple[Part, ...]:
    if isinstance(content, str):
        return content
    return as_content(map(_part, as_list(content, "'content'")))


def _part(plain: Any) -> Part:
    """Decode a part; unknown kinds are stored unchanged."""
    match plain:
        case {"type": "input_text" | "output_text", "text": str(text)}:
            return TextPart(text)
        case {"type": "input_image", "image_url": str(url)}:
            return ImagePart(**file_source(url))
        case {"type": "input_file", "filename": str(name), "file_data": str(url)}:
            return DocumentPart(name=name, **file_source(url))
        case {"type": "input_file", "file_url": str(url)}:
            return DocumentPart(url=url)
    return ProviderPart(NAME, as_mapping(plain, "A part of 'content'"))


def _tools(tools: Iterable[Any]) -> Iterator[ToolSpec]:
    """Yield the functions; tools of the server are ignored."""
    for tool in tools:
        match tool:
            case {"type": "function", "name": str(name)}:
                description = as_text(tool.get("description"), f"The 'description' of {name}")
                parameters = tool.get("parameters") or NO_PARAMETERS
                yield ToolSpec(name, description, as_mapping(parameters, f"'parameters' of {name}"))
            case {"type": str(kind)} if kind != "function":
                pass
            case _:
                raise ValueError("Each of 'tools' needs a 'type', and a function a 'name'.")


def _tool_choice(choice: Any) -> str | None:
    """Return the choice; other kinds are ignored."""
    match choice:
        case "auto" | "none" | "required":
            return str(choice)
        case {"type": "function", "name": str(name)}:
            return name
    return None


def _response_schema(text: Any) -> Mapping[str, Any] | None:
    match text:
        case {"format": {"type": "json_schema", "schema": dict(schema)}}:
            return schema
        case {"format": {"type": "json_object"}}:
            return ANY_OBJECT
    return None


# ---- the reply


def encode_reply(reply: ChatResponse) -> dict[str, Any]:
    """Encode a whole `response` object."""
    end = {"output": _output(reply), "usage": _usage(reply.usage)}
    return {**_head(reply), **_end(reply), **end}


def encode_stream(reply: ChatResponse, *, piece: int = 8) -> Iterator[str]:
    """Encode a reply as events: its start, the pieces of each item, and the whole reply."""
    for number, data in enumerate(_events(encode_reply(reply), piece)):
        yield event({**data, "sequence_number": number}, data["type"])


def _head(reply: ChatResponse) -> dict[str, Any]:
    """Return the first fields. A constant creation time makes replies equal."""
    identity = {"id": reply.request_id or "resp_0", "model": reply.model or ""}
    settings = {"parallel_tool_calls": True, "tool_choice": "auto", "tools": [], "metadata": {}}
    return {**identity, "object": "response", "created_at": 0, "error": None, **settings}


def _end(reply: ChatResponse) -> dict[str, Any]:
    """Return the status. A reply that is not complete also has a reason."""
    reason = reply.raw_finish_reason or _REASONS.get(reply.finish_reason, "completed")
    if reply.refusal or known_finish_reason(reason) in _COMPLETE:
        return {"status": "completed", "incomplete_details": None}
    return {"status": "incomplete", "incomplete_details": {"reason": reason}}


def _output(reply: ChatResponse) -> list[dict[str, Any]]:
    parts = map(_reply_part, parts_of(reply.message))
    items = with_calls(parts, reply.tool_calls, NAME, _reply_call)
    if reply.refusal:
        items.append(_reply_message({"type": "refusal", "refusal": reply.refusal}))
    for number, item in enumerate(items):
        if item.get("type") in _WITH_ID:
            item.setdefault("id", f"item_{number}")
    return items


def _reply_part(part: Part) -> dict[str, Any] | None:
    """Encode a part; None for files and for parts of another provider."""
    match part:
        case TextPart(text, citations):
            notes = [_annotation(cited) for cited in citations]
            content = {"type": "output_text", "text": text, "annotations": notes, "logprobs": []}
            return {**_reply_message(content), **own_data(part, NAME)}
        case ThinkingPart(text):
            summary = [{"type": "summary_text", "text": text}] if text else []
            return {"type": "reasoning", "summary": summary, **own_data(part, NAME)}
        case ProviderPart(wire, data) if wire == NAME:
            return dict(data)
    return None


def _reply_message(content: Mapping[str, Any]) -> dict[str, Any]:
    return {"type": "message", "role": "assistant", "status": "completed", "content": [content]}


def _annotation(citation: Citation) -> dict[str, Any]:
    cited = {"url": citation.url or "", "title": citation.title or ""}
    place = {"start_index": 0, "end_index": 0}
    return own_data(citation, NAME) or {"type": "url_citation", **cited, **place}


def _reply_call(call: ToolCall) -> dict[str, Any]:
    function = {"call_id": call.id, "name": call.name, "arguments": call.arguments}
    plain = {"type": "function_call", **function, "status": "completed"}
    return deep_merge(plain, own_data(call, NAME))


def _usage(usage: Usage | None) -> dict[str, Any] | None:
    if usage is None or usage.input_tokens is None or usage.output_tokens is None:
        return None
    read, written = usage.input_tokens, usage.output_tokens
    cached, added = usage.cached_input_tokens, usage.cache_write_tokens
    return {
        "input_tokens": read,
        "input_tokens_details": _counts(cached_tokens=cached, cache_write_tokens=added),
        "output_tokens": written,
        "output_tokens_details": _counts(reasoning_tokens=usage.reasoning_tokens),
        "total_tokens": read + written,
    }


def _counts(**counts: int | None) -> dict[str, Any]:
    """Return token counts. The format requires all, so unknown ones are zeros, and are listed."""
    unknown = [name for name, count in counts.items() if count is None]
    known = {name: count or 0 for name, count in counts.items()}
    return {**known, **({"not_counted": unknown} if unknown else {})}


def _events(response: dict[str, Any], piece: int) -> Iterator[dict[str, Any]]:
    unknown: dict[str, Any] = {"output": [], "usage": None, "incomplete_details": None}
    start = {**response, **unknown, "status": "in_progress"}
    yield {"type": "response.created", "response": start}
    yield {"type": "response.in_progress", "response": start}
    for index, item in enumerate(response["output"]):
        place = {"item_id": item.get("id"), "output_index": index}
        started, pieces = _start_and_pieces(item, piece)
        yield {"type": "response.output_item.added", "output_index": index, "item": started}
        yield from ({**data, "type": f"response.{data['type']}", **place} for data in pieces)
        yield {"type": "response.output_item.done", "output_index": index, "item": item}
    yield {"type": f"response.{response['status']}", "response": response}


def _start_and_pieces(
    item: dict[str, Any], piece: int
) -> tuple[dict[str, Any], Iterable[dict[str, Any]]]:
    """Return the start of an item, and the events that complete it."""
    match item:
        case {"type": "message", "content": [content]}:
            started = {**item, "content": [], "status": "in_progress"}
            return started, _content_pieces(content, piece)
        case {"type": "function_call", "arguments": arguments}:
            started = {**item, "arguments": "", "status": "in_progress"}
            kind = "function_call_arguments"
            done = {"arguments": arguments, "name": item["name"]}
            return started, _pieces(kind, arguments, piece, done)
        case {"type": "reasoning", "summary": summaries}:
            return {**item, "summary": []}, _summary_pieces(summaries, piece)
    return item, ()


def _pieces(
    kind: str, text: str, piece: int, done: Mapping[str, Any], **place: Any
) -> Iterator[dict[str, Any]]:
    for delta in split(text, piece):
        yield {"type": f"{kind}.delta", **place, "delta": delta}
    yield {"type": f"{kind}.done", **place, **done}


def _content_pieces(content: Mapping[str, Any], piece: int) -> Iterator[dict[str, Any]]:
    """Yield the events of a text or a refusal."""
    is_refusal = content["type"] == "refusal"
    name, kind = ("refusal", "refusal") if is_refusal else ("text", "output_text")
    empty: dict[str, Any] = {"type": content["type"], name: ""}
    place: dict[str, Any] = {"content_index": 0}
    if not is_refusal:
        empty["annotations"] = place["logprobs"] = []
    yield {"type": "content_part.added", "content_index": 0, "part": empty}
    yield from _pieces(kind, content[name], piece, {name: content[name]}, **place)
    for number, note in enumerate(content.get("annotations", ())):
        cited = {"content_index": 0, "annotation_index": number, "annotation": note}
        yield {"type": "output_text.annotation.added", **cited}
    yield {"type": "content_part.done", "content_index": 0, "part": content}


def _summary_pieces(summaries: Iterable[dict[str, Any]], piece: int) -> Iterator[dict[str, Any]]:
    for index, part in enumerate(summaries):
        text, place = part["text"], {"summary_index": index}
        yield {"type": "reasoning_summary_part.added", **place, "part": {**part, "text": ""}}
        yield from _pieces("reasoning_summary_text", text, piece, {"text": text}, **place)
        yield {"type": "reasoning_summary_part.done", **place, "part": part}
