"""What a message is made of besides plain text: pictures, documents, thinking, citations, tool
calls.

All are frozen values. What only one provider understands (signatures of thinking, cache marks, its
own kinds of parts) is kept beside our words in `provider_data`, under the name of the wire format
it belongs to: it is sent back to that provider unchanged, and to no other. This file knows no wire
format; the mappings read and written here are our own form, which sessions are saved in.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from dataclasses import fields as dataclass_fields
from typing import Any

from stage0_gateway.fields import a_list, a_mapping, a_text, needed_text

ProviderData = Mapping[str, Mapping[str, Any]]
"""Opaque data by wire format: `{"anthropic": {"signature": "…"}}`."""


@dataclass(frozen=True, slots=True)
class Citation:
    """Where a model says it has something from.

    Attributes:
        url: The address, where the source has one.
        title: The source's title.
        quote: The words that are cited.
        provider_data: The citation in the provider's own form.
    """

    url: str | None = None
    title: str | None = None
    quote: str | None = None
    provider_data: ProviderData | None = field(default=None, repr=False, hash=False)


@dataclass(frozen=True, slots=True)
class TextPart:
    """A piece of text, and what it cites."""

    text: str
    citations: tuple[Citation, ...] = ()
    provider_data: ProviderData | None = field(default=None, repr=False, hash=False)


@dataclass(frozen=True, slots=True)
class JsonPart:
    """A JSON value; wire formats without such a part send its text."""

    value: Any


@dataclass(frozen=True, slots=True)
class ImagePart:
    """A picture: `data` holds base64 text with its `media_type`, or `url` says where it is."""

    data: str | None = None
    media_type: str = "image/png"
    url: str | None = None
    provider_data: ProviderData | None = field(default=None, repr=False, hash=False)


@dataclass(frozen=True, slots=True)
class DocumentPart:
    """A file for the model to read: base64 `data` with its `media_type`, or a `url`."""

    data: str | None = None
    media_type: str = "application/pdf"
    name: str = "document"
    url: str | None = None
    provider_data: ProviderData | None = field(default=None, repr=False, hash=False)


@dataclass(frozen=True, slots=True)
class ThinkingPart:
    """What the model thought before it answered. Shown to people, never counted as its answer."""

    text: str
    provider_data: ProviderData | None = field(default=None, repr=False, hash=False)


@dataclass(frozen=True, slots=True)
class ProviderPart:
    """A part that only one provider has a word for, such as a search its server ran itself.

    Attributes:
        wire: The wire format it came in; it is sent back in this one only.
        data: The part as it came.
    """

    wire: str
    data: Mapping[str, Any] = field(hash=False)


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A model's wish to run a tool.

    Attributes:
        id: Pairs the call with its result; unique within a session.
        name: The tool's name as the model wrote it; it need not exist.
        arguments: The JSON *text* of the arguments. Nothing has checked it yet: stage 3 does.
        provider_data: What the provider wants to see again with this call.
    """

    id: str
    name: str
    arguments: str = "{}"
    provider_data: ProviderData | None = field(default=None, repr=False, hash=False)


Part = TextPart | JsonPart | ImagePart | DocumentPart | ThinkingPart | ProviderPart
_TYPES: dict[str, type[Part]] = {
    "text": TextPart,
    "json": JsonPart,
    "image": ImagePart,
    "document": DocumentPart,
    "thinking": ThinkingPart,
    "provider": ProviderPart,
}
_NAMES = {kind: name for name, kind in _TYPES.items()}


def as_parts(content: object) -> tuple[Part, ...]:
    """The content of a message as parts.

    Raises:
        ValueError: It is neither a list nor a tuple, or holds something else than parts.
    """
    if not isinstance(content, list | tuple):
        raise ValueError(f"Message content is text or parts, not {type(content).__name__}.")
    for part in content:
        if type(part) not in _NAMES:
            names = ", ".join(kind.__name__ for kind in _NAMES)
            raise ValueError(f"A message part is one of {names}, not {type(part).__name__}.")
    return tuple(content)


def part_to_dict(part: Part) -> dict[str, Any]:
    """A part as plain JSON values; what is empty and may be left out is left out."""
    plain = _fields(part)
    if isinstance(part, JsonPart):
        plain["value"] = part.value  # it may be null, and mean it
    if isinstance(part, TextPart) and part.citations:
        plain["citations"] = [_fields(citation) for citation in part.citations]
    return {"type": _NAMES[type(part)], **plain}


def part_from_dict(plain: Any) -> Part:
    """The part that `part_to_dict` wrote, or a text or image in the form of OpenAI's documentation.

    Raises:
        ValueError: It is none; the text says what is wrong.
    """
    fields = dict(a_mapping(plain, "A message part"))
    name = a_text(fields.pop("type", ""), "type")
    if name == "image_url":
        return _image_from_url(a_mapping(fields.get("image_url"), "image_url"))
    kind = _TYPES.get(name)
    if kind is None:
        raise ValueError(f"Unknown part type {name!r}. The types are {', '.join(_TYPES)}.")
    if "text" in fields and name in ("text", "thinking"):
        fields["text"] = a_text(fields.get("text"), f"The text of a {name} part")
    if name == "text":
        fields["citations"] = tuple(
            _citation(each) for each in a_list(fields.get("citations"), "citations")
        )
    try:
        return kind(**fields)
    except TypeError as error:
        raise ValueError(f"This {name} part does not fit: {error}.") from error


def call_to_dict(call: ToolCall) -> dict[str, Any]:
    """A tool call as plain JSON values."""
    return _fields(call)


def call_from_dict(plain: Any) -> ToolCall:
    """Read a call as `call_to_dict` wrote it, or in the form of OpenAI's documentation.

    Empty arguments mean `{}` in OpenAI's form only. In ours they are kept: they were cut off and
    must not run.
    """
    plain = a_mapping(plain, "A tool call")
    function = a_mapping(plain.get("function", plain), "function")
    arguments = function.get("arguments")
    if isinstance(arguments, Mapping):
        arguments = json.dumps(arguments, ensure_ascii=False)
    elif arguments is None or (arguments == "" and "function" in plain):
        arguments = "{}"
    for name, where in (("id", plain), ("name", function)):
        if (
            where.get(name) is None
        ):  # an empty one is bad, but it is what a model wrote, and what was kept
            raise ValueError(f"A tool call needs a {name!r}.")
    call_id, name = (
        a_text(plain["id"], "A tool call.id"),
        a_text(function["name"], "A tool call.name"),
    )
    return ToolCall(call_id, name, a_text(arguments, "arguments"), plain.get("provider_data"))


def data_url(text: str) -> tuple[str, str] | None:
    """The base64 text and the media type of a `data:` URL; None for any other URL."""
    head, found, data = text.partition(";base64,")
    return (data, head.removeprefix("data:")) if found and head.startswith("data:") else None


def _fields(value: Part | ToolCall | Citation) -> dict[str, Any]:
    """The fields of a value that hold something, mappings as plain ones."""
    named = ((each.name, getattr(value, each.name)) for each in dataclass_fields(value))
    return {name: _plain(held) for name, held in named if held is not None and held != ()}


def _plain(value: Any) -> Any:
    return (
        {key: _plain(each) for key, each in value.items()} if isinstance(value, Mapping) else value
    )


def _image_from_url(image: Mapping[str, Any]) -> ImagePart:
    url = needed_text(image, "url", "image_url")
    inline = data_url(url)
    return ImagePart(inline[0], inline[1]) if inline else ImagePart(url=url)


def _citation(plain: Any) -> Citation:
    try:
        return Citation(**a_mapping(plain, "A citation"))
    except TypeError as error:
        raise ValueError(f"This citation does not fit: {error}.") from error
