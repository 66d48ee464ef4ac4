"""OpenAI's chat completions seen from the server: a body becomes a request, a reply becomes a body.

Pure functions, the mirror of `wire/openai.py`. Knows no HTTP and no model, and decides nothing about the
conversation: it only refuses what is not a request, with a text that says which field is wrong. Used by
the embedded and the scripted model.
"""

from collections.abc import Mapping
from typing import Any, cast

from stage0_gateway.fields import a_list, a_mapping, a_number, a_text, needed_text
from stage0_gateway.messages import DocumentPart, ImagePart, Message, Part, Role, TextPart, ToolCall
from stage0_gateway.request import ChatRequest, ToolSpec
from stage0_gateway.response import ChatResponse
from stage0_gateway.usage import Usage

_KNOWN = {
    *("model", "messages", "tools", "tool_choice", "temperature", "max_tokens", "max_completion_tokens"),
    *("stop", "response_format", "stream", "stream_options"),
}

# ---- the request ----------------------------------------------------------------------------------------


def decode_request(body: Mapping[str, Any]) -> ChatRequest:
    """Read a chat completion request; fields this project has no word for become `provider_options`.

    Raises:
        ValueError: The body is not such a request; the text names the field.
    """
    body = a_mapping(body, "The body")
    messages = a_list(body.get("messages"), "'messages'")
    if not messages:
        raise ValueError("'messages' must hold at least one message.")
    return ChatRequest(
        model=a_text(body.get("model"), "'model'"),
        messages=tuple(_message(message, f"messages[{index}]") for index, message in enumerate(messages)),
        tools=tuple(
            _tool(tool, f"tools[{i}]") for i, tool in enumerate(a_list(body.get("tools"), "'tools'"))
        ),
        tool_choice=_tool_choice(body.get("tool_choice")),
        temperature=a_number(body.get("temperature"), "'temperature'"),
        max_tokens=_max_tokens(body),
        response_schema=_response_schema(body.get("response_format")),
        stop=_stop(body.get("stop")),
        provider_options={name: value for name, value in body.items() if name not in _KNOWN} or None,
    )


def _message(plain: Any, where: str) -> Message:
    plain = a_mapping(plain, where)
    role = "system" if plain.get("role") == "developer" else plain.get("role")
    if role not in ("system", "user", "assistant", "tool"):
        raise ValueError(f"{where} has the role {role!r}; the roles are system, user, assistant and tool.")
    content = plain.get("content")
    if not isinstance(content, str):
        content = tuple(_part(part, f"{where}.content") for part in a_list(content, f"{where}.content"))
    calls = a_list(plain.get("tool_calls"), f"{where}.tool_calls")
    answers = a_text(plain.get("tool_call_id"), f"{where}.tool_call_id") if role == "tool" else ""
    name = a_text(plain.get("name"), f"{where}.name") if role == "tool" else ""
    return Message(
        role=cast("Role", role),
        content=content or "",
        tool_calls=tuple(_call(call, f"{where}.tool_calls") for call in calls),
        tool_call_id=answers or None,
        name=name or None,
    )


def _part(plain: Any, where: str) -> Part:
    plain = a_mapping(plain, f"A part of {where}")
    match plain.get("type"):
        case "text":
            return TextPart(a_text(plain.get("text"), f"{where}.text"))
        case "image_url":
            image = a_mapping(plain.get("image_url"), f"{where}.image_url")
            data, media_type = _data_url(a_text(image.get("url"), f"{where}.image_url.url"))
            return ImagePart(data, media_type) if media_type else ImagePart(url=data)
        case "file":
            file = a_mapping(plain.get("file"), f"{where}.file")
            data, media_type = _data_url(a_text(file.get("file_data"), f"{where}.file.file_data"))
            name = a_text(file.get("filename"), f"{where}.file.filename")
            return DocumentPart(data, media_type or "application/pdf", name or "document")
        case kind:
            raise ValueError(f"{where} holds a part of type {kind!r}; there are text, image_url and file.")


def _data_url(url: str) -> tuple[str, str]:
    """The base64 text of a data URL and its media type; any other URL as it is, with no type."""
    head, found, data = url.partition(";base64,")
    return (data, head.removeprefix("data:")) if found and head.startswith("data:") else (url, "")


def _call(plain: Any, where: str) -> ToolCall:
    plain = a_mapping(plain, where)
    function = a_mapping(plain.get("function"), f"{where}.function")
    arguments = a_text(function.get("arguments"), f"{where}.function.arguments") or "{}"
    return ToolCall(
        needed_text(plain, "id", where), needed_text(function, "name", f"{where}.function"), arguments
    )


def _tool(plain: Any, where: str) -> ToolSpec:
    function = a_mapping(a_mapping(plain, where).get("function"), f"{where}.function")
    name = needed_text(function, "name", f"{where}.function")
    description = a_text(function.get("description"), f"{where}.function.description")
    parameters = function.get("parameters")
    if parameters is None:
        return ToolSpec(name, description)
    return ToolSpec(name, description, a_mapping(parameters, f"{where}.function.parameters"))


def _tool_choice(choice: Any) -> str | None:
    if choice in (None, "auto", "none", "required"):
        return choice if choice is None else str(choice)
    function = a_mapping(a_mapping(choice, "'tool_choice'").get("function"), "'tool_choice.function'")
    return needed_text(function, "name", "'tool_choice.function'")


def _max_tokens(body: Mapping[str, Any]) -> int | None:
    name = "max_tokens" if body.get("max_tokens") is not None else "max_completion_tokens"
    value = body.get(name)
    if value is not None and type(value) is not int:
        raise ValueError(f"{name!r} must be a whole number, not {type(value).__name__}.")
    return value


def _stop(stop: Any) -> tuple[str, ...]:
    return (
        (stop,) if isinstance(stop, str) else tuple(a_text(one, "'stop'") for one in a_list(stop, "'stop'"))
    )


def _response_schema(wish: Any) -> Mapping[str, Any] | None:
    if wish is None or a_mapping(wish, "'response_format'").get("type") != "json_schema":
        return None
    named = a_mapping(wish.get("json_schema"), "'response_format.json_schema'")
    return a_mapping(named.get("schema"), "'response_format.json_schema.schema'")


# ---- the reply ------------------------------------------------------------------------------------------


def encode_reply(reply: ChatResponse, *, created: int = 0) -> dict[str, Any]:
    """A whole `chat.completion` object; `created` is in seconds since 1970, 0 keeps replies comparable."""
    message: dict[str, Any] = {"role": "assistant", "content": reply.content, "refusal": reply.refusal}
    if reply.thinking:
        message["reasoning_content"] = reply.thinking
    if reply.tool_calls:
        message["content"] = reply.content or None
        message["tool_calls"] = [_encode_call(call) for call in reply.tool_calls]
    choice = {"index": 0, "message": message, "finish_reason": _finish_reason(reply), "logprobs": None}
    body: dict[str, Any] = {"id": reply.request_id or "chatcmpl-0", "object": "chat.completion"}
    body.update(created=created, model=reply.model or "", choices=[choice])
    return body | _encode_usage(reply.usage)


def encode_error(status: int, message: str, *, kind: str = "") -> dict[str, Any]:
    """An error body; without a `kind` the status decides whose fault it is."""
    kind = kind or ("server_error" if status >= 500 else "invalid_request_error")
    return {"error": {"message": message, "type": kind, "param": None, "code": None}}


def _encode_call(call: ToolCall) -> dict[str, Any]:
    return {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}


def _finish_reason(reply: ChatResponse) -> str:
    if reply.raw_finish_reason:
        return reply.raw_finish_reason
    if reply.finish_reason in ("length", "refusal"):
        return "length" if reply.finish_reason == "length" else "content_filter"
    return "tool_calls" if reply.tool_calls else "stop"


def _encode_usage(usage: Usage | None) -> dict[str, Any]:
    # The format has no word for "not reported" but to leave all of it out.
    if usage is None or usage.input_tokens is None or usage.output_tokens is None:
        return {}
    total = usage.input_tokens + usage.output_tokens
    numbers: dict[str, Any] = {
        "prompt_tokens": usage.input_tokens,
        "completion_tokens": usage.output_tokens,
        "total_tokens": total,
    }
    if usage.cached_input_tokens is not None:
        numbers["prompt_tokens_details"] = {"cached_tokens": usage.cached_input_tokens}
    if usage.reasoning_tokens is not None:
        numbers["completion_tokens_details"] = {"reasoning_tokens": usage.reasoning_tokens}
    return {"usage": numbers}
