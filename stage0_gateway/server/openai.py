"""OpenAI's chat completions in reverse: decode requests, encode replies.

The mirror of `wire/openai.py`; pure. An invalid request raises an error that names the field.

Not covered: fields of a request without an attribute in `ChatRequest` and its parts; `functions`
and `function_call`, the predecessors of tools; names of messages; the files of tool results, which
remain in the user message behind the results. A reply has one field for thinking and one for text,
in this order. Its parts of one kind are joined, and provider parts are omitted.
"""

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
    file_source,
)
from stage0_gateway.request import NO_PARAMETERS, ChatRequest, ToolSpec
from stage0_gateway.response import ChatResponse, Usage
from stage0_gateway.server.encoding import event, parts_of, split, without_none
from stage0_gateway.server.format import ANY_OBJECT
from stage0_gateway.wire.openai import NAME as NAME
from stage0_gateway.wire.provider_data import deep_merge, own_data
from stage0_gateway.wire.reasoning import read_reasoning

_REASONS = {"length": "length", "refusal": "content_filter", "error": "error"}


def is_path(path: str) -> bool:
    """Return whether this path, under any base, is that of chat completions."""
    return path.partition("?")[0].rstrip("/").endswith("/chat/completions")


# ---- the request


def decode_request(body: Mapping[str, Any], path: str = "") -> ChatRequest:
    """Decode a chat completion request.

    Raises:
        ValueError: The body is invalid. The text names the field.
    """
    body = as_mapping(body, "The body")
    messages = as_list(body.get("messages"), "'messages'")
    if not messages:
        raise ValueError("'messages' must hold at least one message.")
    max_tokens = body.get("max_tokens") or body.get("max_completion_tokens")
    stop = body.get("stop")
    stop = [stop] if isinstance(stop, str) else as_list(stop, "'stop'")
    return ChatRequest(
        model=as_text(body.get("model"), "'model'"),
        messages=tuple(map(_message, messages)),
        tools=tuple(_tools(as_list(body.get("tools"), "'tools'"))),
        tool_choice=_tool_choice(body.get("tool_choice")),
        temperature=as_number(body.get("temperature"), "'temperature'"),
        max_tokens=as_integer(max_tokens, "'max_tokens'"),
        response_schema=_response_schema(body.get("response_format")),
        stop=tuple(as_text(text, "'stop'") for text in stop),
        reasoning=read_reasoning(body.get("reasoning_effort")),
        cache_key=as_text(body.get("prompt_cache_key"), "'prompt_cache_key'") or None,
    )


def _message(plain: Any) -> Message:
    plain = as_mapping(plain, "A message")
    match plain.get("role"):
        case "system" | "developer":
            return Message.system(_content(plain))
        case "user":
            return Message.user(_content(plain))
        case "assistant":
            calls = as_list(plain.get("tool_calls"), "'tool_calls'")
            return Message.assistant(_content(plain), map(_call, calls))
        case "tool":
            call_id = as_text(plain.get("tool_call_id"), "'tool_call_id'")
            return Message.tool(_content(plain), call_id)
        case role:
            roles = "system, user, assistant and tool"
            raise ValueError(f"A message has the role {role!r}; the roles are {roles}.")


def _content(plain: Mapping[str, Any]) -> str | tuple[Part, ...]:
    """Return the content of a message, with the thinking of its other fields before it."""
    content = plain.get("content")
    texts = [as_text(plain.get(name), f"'{name}'") for name in ("reasoning_content", "reasoning")]
    thinking = [ThinkingPart(text) for text in texts if text]
    if isinstance(content, str):
        return as_content([*thinking[:1], *([TextPart(content)] if content else [])])
    return as_content([*thinking[:1], *map(_part, as_list(content, "'content'"))])


def _part(plain: Any) -> Part:
    """Decode a part; unknown kinds are stored unchanged."""
    match plain:
        case {"type": "text", "text": str(text)}:
            return TextPart(text)
        case {"type": "image_url", "image_url": {"url": str(url)}}:
            return ImagePart(**file_source(url))
        case {"type": "file", "file": {"filename": str(name), "file_data": str(url)}}:
            return DocumentPart(name=name, **file_source(url))
        case {"type": "thinking", "thinking": [{"type": "text", "text": str(text)}]}:  # Mistral's
            return ThinkingPart(text)
    return ProviderPart(NAME, as_mapping(plain, "A part of 'content'"))


def _call(plain: Any) -> ToolCall:
    match plain:
        case {"id": str(call_id), "function": {"name": str(name), "arguments": str(arguments)}}:
            return ToolCall(call_id, name, arguments or "{}")
    needed = "an 'id' and a 'function' with 'name' and 'arguments'"
    raise ValueError(f"Each of 'tool_calls' needs {needed}.")


def _tools(tools: Iterable[Any]) -> Iterator[ToolSpec]:
    """Yield the functions; tools of the server are ignored."""
    for tool in tools:
        match tool:
            case {"function": {"name": str(name), **function}}:
                description = as_text(function.get("description"), f"The 'description' of {name}")
                parameters = function.get("parameters", NO_PARAMETERS)
                yield ToolSpec(name, description, as_mapping(parameters, f"'parameters' of {name}"))
            case {"type": str(kind)} if kind != "function":
                pass
            case _:
                raise ValueError("Each of 'tools' needs a 'function' with a 'name'.")


def _tool_choice(choice: Any) -> str | None:
    """Return the choice; other kinds are ignored."""
    match choice:
        case "auto" | "none" | "required":
            return str(choice)
        case {"function": {"name": str(name)}}:
            return name
    return None


def _response_schema(response_format: Any) -> Mapping[str, Any] | None:
    match response_format:
        case {"type": "json_schema", "json_schema": {"schema": dict(schema)}}:
            return schema
        case {"type": "json_object"}:
            return ANY_OBJECT
    return None


# ---- the reply


def encode_reply(reply: ChatResponse) -> dict[str, Any]:
    """Encode a whole `chat.completion` object."""
    message, reason = _reply_message(reply), _finish_reason(reply)
    choice = {"index": 0, "message": message, "finish_reason": reason, "logprobs": None}
    return {**_head(reply, "chat.completion"), "choices": [choice], **_usage(reply.usage)}


def encode_stream(reply: ChatResponse, *, piece: int = 8) -> Iterator[str]:
    """Encode a reply as `chat.completion.chunk` events, token counts and the end marker."""
    head = _head(reply, "chat.completion.chunk")
    for delta in _deltas(_reply_message(reply), piece):
        choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": None}
        yield event({**head, "choices": [choice]})
    choice = {"index": 0, "delta": {}, "logprobs": None, "finish_reason": _finish_reason(reply)}
    yield event({**head, "choices": [choice]})
    if usage := _usage(reply.usage):
        yield event({**head, "choices": [], **usage})
    yield "data: [DONE]\n\n"


def encode_error(status: int, message: str) -> dict[str, Any]:
    """Encode an error."""
    kind = "server_error" if status >= 500 else "invalid_request_error"
    return {"error": {"message": message, "type": kind, "param": None, "code": None}}


def _head(reply: ChatResponse, kind: str) -> dict[str, Any]:
    """Return the first fields of every object. A constant creation time makes replies equal."""
    identity = {"id": reply.request_id or "chatcmpl-0", "model": reply.model or ""}
    return {**identity, "object": kind, "created": 0}


def _reply_message(reply: ChatResponse) -> dict[str, Any]:
    parts = parts_of(reply.message)
    texts = [part for part in parts if isinstance(part, TextPart)]
    thinking = [part for part in parts if isinstance(part, ThinkingPart)]
    text = "".join(part.text for part in texts)
    message: dict[str, Any] = {"role": "assistant", "content": text, "refusal": reply.refusal}
    if thinking:
        is_reasoning = own_data(thinking[0], NAME).get("field") == "reasoning"
        field = "reasoning" if is_reasoning else "reasoning_content"
        message[field] = "".join(part.text for part in thinking)
    if annotations := [_annotation(citation) for part in texts for citation in part.citations]:
        message["annotations"] = annotations
    if reply.tool_calls:
        message["content"] = text or None
        message["tool_calls"] = [_reply_call(call) for call in reply.tool_calls]
    return message


def _annotation(citation: Citation) -> dict[str, Any]:
    cited = without_none({"url": citation.url, "title": citation.title, "content": citation.quote})
    return own_data(citation, NAME) or {"type": "url_citation", "url_citation": cited}


def _reply_call(call: ToolCall) -> dict[str, Any]:
    function = {"name": call.name, "arguments": call.arguments}
    plain = {"id": call.id, "type": "function", "function": function}
    return deep_merge(plain, own_data(call, NAME))


def _finish_reason(reply: ChatResponse) -> str:
    usual = "tool_calls" if reply.tool_calls else "stop"
    return reply.raw_finish_reason or _REASONS.get(reply.finish_reason, usual)


def _usage(usage: Usage | None) -> dict[str, Any]:
    """Return the token counts; this format requires both."""
    if usage is None or usage.input_tokens is None or usage.output_tokens is None:
        return {}
    read, written = usage.input_tokens, usage.output_tokens
    counts: dict[str, Any] = {"prompt_tokens": read, "completion_tokens": written}
    counts["total_tokens"] = read + written
    cache = {"cached_tokens": usage.cached_input_tokens}
    cache["cache_write_tokens"] = usage.cache_write_tokens
    if cache := without_none(cache):
        counts["prompt_tokens_details"] = cache
    if usage.reasoning_tokens is not None:
        counts["completion_tokens_details"] = {"reasoning_tokens": usage.reasoning_tokens}
    return {"usage": counts}


def _deltas(message: Mapping[str, Any], piece: int) -> Iterator[dict[str, Any]]:
    """Split a message into deltas of at most `piece` characters."""
    yield {"role": "assistant", "content": "", "refusal": None}
    for name in ("reasoning_content", "reasoning", "content", "refusal"):
        for text in split(message.get(name) or "", piece):
            yield {name: text}
    if "annotations" in message:
        yield {"annotations": message["annotations"]}
    for index, call in enumerate(message.get("tool_calls", ())):
        function = call["function"]
        yield {"tool_calls": [{"index": index, **call, "function": {**function, "arguments": ""}}]}
        for text in split(function["arguments"], piece):
            yield {"tool_calls": [{"index": index, "function": {"arguments": text}}]}
