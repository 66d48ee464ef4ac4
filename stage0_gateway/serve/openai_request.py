"""A chat completion request, read: the first half of the room `serve/openai.py`.

Pure. Decides nothing about the conversation: it only refuses what is not a request, with a text that says
which field is wrong. What our words cannot hold is kept beside them and goes back as it came: fields of the
body in `provider_options`, fields of a part or a call in its `provider_data`, whole parts as `ProviderPart`s.

Not read: the `functions` of before there were tools, which stay in the options. Not kept: names and other
marks on a message as a whole, for which a `Message` has no place.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from stage0_gateway.fields import a_list, a_mapping, a_number, a_text, needed_text
from stage0_gateway.messages import Message, Role
from stage0_gateway.parts import (
    DocumentPart,
    ImagePart,
    Part,
    ProviderPart,
    TextPart,
    ThinkingPart,
    ToolCall,
    data_url,
)
from stage0_gateway.request import ChatRequest, ToolSpec
from stage0_gateway.serve.asked import kept, whole_number, with_options
from stage0_gateway.wire.opaque import own_data
from stage0_gateway.wire.openai import NAME, encode

_ROLES: dict[str, Role] = {
    "system": "system",
    "developer": "system",
    "user": "user",
    "assistant": "assistant",
    "tool": "tool",
    "function": "tool",  # of before there were tools, as `function_call`
}
_APART = {"messages", "stream", "stream_options"}
_THINKING = ("reasoning_content", "reasoning")


def decode_request(body: Mapping[str, Any], path: str = "") -> ChatRequest:
    """Read a chat completion request; what this project has no word for is kept for the way back.

    Raises:
        ValueError: The body is not such a request; the text names the field.
    """
    plain = _one_way(a_mapping(body, "The body"))
    messages = a_list(plain.get("messages"), "'messages'")
    if not messages:
        raise ValueError("'messages' must hold at least one message.")
    tools = (_tool(tool, f"tools[{i}]") for i, tool in enumerate(a_list(plain.get("tools"), "'tools'")))
    request = ChatRequest(
        model=a_text(plain.get("model"), "'model'"),
        messages=tuple(_message(message, f"messages[{index}]") for index, message in enumerate(messages)),
        tools=tuple(tool for tool in tools if tool),
        tool_choice=_tool_choice(plain.get("tool_choice")),
        temperature=a_number(plain.get("temperature"), "'temperature'"),
        max_tokens=whole_number(plain.get("max_tokens"), "'max_tokens'"),
        response_schema=_response_schema(plain.get("response_format")),
        stop=tuple(a_text(one, "'stop'") for one in a_list(plain.get("stop"), "'stop'")),
    )
    return with_options(request, plain, encode, _APART)


def _one_way(body: Mapping[str, Any]) -> dict[str, Any]:
    """The body with one spelling for what has several."""
    plain = dict(body)
    if (newer := plain.pop("max_completion_tokens", None)) is not None and plain.get("max_tokens") is None:
        plain["max_tokens"] = newer
    if isinstance(stop := plain.get("stop"), str):
        plain["stop"] = [stop]
    if isinstance(tools := plain.get("tools"), list):
        plain["tools"] = [_with_type(tool) for tool in tools]
    return plain


def _with_type(tool: Any) -> Any:
    """A function whose kind is not said, as Mistral's clients leave it out, as one whose kind is."""
    is_function = isinstance(tool, Mapping) and "function" in tool
    return {"type": "function", **tool} if is_function else tool


def _message(plain: Any, where: str) -> Message:
    plain = a_mapping(plain, where)
    said = plain.get("role")
    role = _ROLES.get(said) if isinstance(said, str) else None
    if role is None:
        raise ValueError(f"{where} has the role {said!r}; the roles are system, user, assistant and tool.")
    if role == "tool":
        name = a_text(plain.get("name"), f"{where}.name")
        answers = name if said == "function" else a_text(plain.get("tool_call_id"), f"{where}.tool_call_id")
        return Message.tool(_content(plain, where), answers, name=name or None)
    listed = a_list(plain.get("tool_calls"), f"{where}.tool_calls")
    calls = [_call(call, f"{where}.tool_calls") for call in listed]
    if (old := plain.get("function_call")) is not None:
        named = a_mapping(old, f"{where}.function_call").get("name")
        calls.append(_call({"function": old, "id": named}, where))
    return Message(role, _content(plain, where), tuple(calls))


def _content(plain: Mapping[str, Any], where: str) -> str | tuple[Part, ...]:
    """What is said, and beside it what was thought, refused, or left by the server to be sent again."""
    content = plain.get("content")
    if isinstance(content, str):
        parts: list[Part] = [TextPart(content)] if content else []
    else:
        parts = [_part(part, f"{where}.content") for part in a_list(content, f"{where}.content")]
    before = _thinking(plain, where)
    if refusal := a_text(plain.get("refusal"), f"{where}.refusal"):
        parts.append(ProviderPart(NAME, {"type": "refusal", "refusal": refusal}))
        content = None
    if extra := plain.get("extra_content"):
        parts, content = _with_extra(parts, extra), None
    return content if isinstance(content, str) and not before else (*before, *parts) or ""


def _with_extra(parts: list[Part], extra: Any) -> list[Part]:
    """With the message's `extra_content` kept on its first text."""
    at = next((at for at, part in enumerate(parts) if isinstance(part, TextPart)), None)
    text = TextPart("") if at is None else parts[at]
    assert isinstance(text, TextPart)
    kept_on = replace(text, provider_data={NAME: {**own_data(text, NAME), "extra_content": extra}})
    return [kept_on, *parts] if at is None else [*parts[:at], kept_on, *parts[at + 1 :]]


def _thinking(plain: Mapping[str, Any], where: str) -> tuple[Part, ...]:
    """What stands beside the content: thoughts under one of their names, and signed details of them."""
    field = next((name for name in _THINKING if plain.get(name)), None)
    details = a_list(plain.get("reasoning_details"), f"{where}.reasoning_details")
    if field:
        text = a_text(plain[field], f"{where}.{field}")
    elif details:
        pieces = (a_mapping(piece, f"{where}.reasoning_details") for piece in details)
        text = "".join(a_text(piece.get("text") or piece.get("summary"), "text") for piece in pieces)
    else:
        return ()
    signed = {"reasoning_details": details} if details else {}
    return (ThinkingPart(text, {NAME: {"field": field or "reasoning", **signed}}),)


def _part(plain: Any, where: str) -> Part:
    plain = a_mapping(plain, f"A part of {where}")
    match plain.get("type"):
        case "text":
            text = a_text(plain.get("text"), f"{where}.text")
            return TextPart(text, provider_data=kept(NAME, plain, {"type": "text", "text": text}))
        case "image_url":
            return _image(plain, f"{where}.image_url")
        case "file" if a_mapping(plain.get("file"), f"{where}.file").get("file_data"):
            return _document(plain, plain["file"], f"{where}.file")
        case "thinking":  # Mistral's
            thoughts = (a_mapping(each, where) for each in a_list(plain.get("thinking"), f"{where}.thinking"))
            text = "".join(a_text(each.get("text"), f"{where}.thinking.text") for each in thoughts)
            return ThinkingPart(text, {NAME: {"field": "thinking"}})
        case _:
            return ProviderPart(NAME, plain)


def _image(plain: Mapping[str, Any], where: str) -> ImagePart:
    image = plain.get("image_url")  # Mistral's clients send the bare URL
    url = image if isinstance(image, str) else needed_text(a_mapping(image, where), "url", where)
    data = kept(NAME, plain, {"type": "image_url", "image_url": {"url": url}})
    inline = data_url(url)
    return ImagePart(*inline, provider_data=data) if inline else ImagePart(url=url, provider_data=data)


def _document(plain: Mapping[str, Any], file: Mapping[str, Any], where: str) -> DocumentPart:
    name = a_text(file.get("filename"), f"{where}.filename") or "document"
    url = a_text(file["file_data"], f"{where}.file_data")
    data = kept(NAME, plain, {"type": "file", "file": {"filename": name, "file_data": url}})
    if inline := data_url(url):
        return DocumentPart(*inline, name, provider_data=data)
    return DocumentPart(name=name, url=url, provider_data=data)


def _call(plain: Any, where: str) -> ToolCall:
    plain = a_mapping(plain, where)
    function = a_mapping(plain.get("function"), f"{where}.function")
    name = needed_text(function, "name", f"{where}.function")
    call_id = needed_text(plain, "id", where)
    arguments = a_text(function.get("arguments"), f"{where}.function.arguments") or "{}"
    written = {"id": call_id, "type": "function", "function": {"name": name, "arguments": arguments}}
    return ToolCall(call_id, name, arguments, kept(NAME, plain, written))


def _tool(plain: Any, where: str) -> ToolSpec | None:
    """A function; None for a tool of the server's own."""
    plain = a_mapping(plain, where)
    if plain.get("function") is None:
        return None
    function = a_mapping(plain["function"], f"{where}.function")
    name = needed_text(function, "name", f"{where}.function")
    description = a_text(function.get("description"), f"{where}.function.description")
    parameters = function.get("parameters")
    if parameters is None:
        return ToolSpec(name, description)
    return ToolSpec(name, description, a_mapping(parameters, f"{where}.function.parameters"))


def _tool_choice(choice: Any) -> str | None:
    if choice in (None, "auto", "none", "required"):
        return choice if choice is None else str(choice)
    if choice == "any":  # Mistral's
        return "required"
    choice = a_mapping(choice, "'tool_choice'")
    if choice.get("type", "function") != "function":  # a set of allowed tools, or one of the server's own
        return None
    return needed_text(
        a_mapping(choice.get("function"), "'tool_choice.function'"), "name", "'tool_choice.function'"
    )


def _response_schema(wish: Any) -> Mapping[str, Any] | None:
    if wish is None or a_mapping(wish, "'response_format'").get("type") != "json_schema":
        return None
    named = a_mapping(wish.get("json_schema"), "'response_format.json_schema'")
    return a_mapping(named.get("schema"), "'response_format.json_schema.schema'")
