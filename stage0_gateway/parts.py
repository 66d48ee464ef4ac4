"""The parts of a message: text, images, documents, thinking, citations and tool calls.

All are frozen values. `provider_data` holds data that only one provider understands, such as
signatures and cache marks. It is stored under the name of a wire format and is sent back unchanged
to that provider only. This module knows no wire format. Its functions convert parts to and from the
JSON in which sessions are saved.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from dataclasses import fields as dataclass_fields
from typing import Any

from stage0_gateway.json_fields import as_list, as_mapping, as_text, required_text

ProviderData = Mapping[str, Mapping[str, Any]]
"""Opaque data by wire format: `{"anthropic": {"signature": "…"}}`."""


@dataclass(frozen=True, slots=True)
class Citation:
    """A source that the model cites.

    Attributes:
        url: The URL of the source, if it has one.
        title: The title of the source.
        quote: The cited text.
        provider_data: The citation in the provider's format.
    """

    url: str | None = None
    title: str | None = None
    quote: str | None = None
    provider_data: ProviderData | None = field(default=None, repr=False, hash=False)


@dataclass(frozen=True, slots=True)
class TextPart:
    """Text and its citations."""

    text: str
    citations: tuple[Citation, ...] = ()
    provider_data: ProviderData | None = field(default=None, repr=False, hash=False)


@dataclass(frozen=True, slots=True)
class JsonPart:
    """A JSON value, sent as JSON text."""

    value: Any


@dataclass(frozen=True, slots=True)
class ImagePart:
    """An image: base64 `data` with its `media_type`, or a `url`."""

    data: str | None = None
    media_type: str = "image/png"
    url: str | None = None
    provider_data: ProviderData | None = field(default=None, repr=False, hash=False)


@dataclass(frozen=True, slots=True)
class DocumentPart:
    """A document: base64 `data` with its `media_type`, or a `url`."""

    data: str | None = None
    media_type: str = "application/pdf"
    name: str = "document"
    url: str | None = None
    provider_data: ProviderData | None = field(default=None, repr=False, hash=False)


@dataclass(frozen=True, slots=True)
class ThinkingPart:
    """The model's thinking before its answer. It is not a part of the answer's text."""

    text: str
    provider_data: ProviderData | None = field(default=None, repr=False, hash=False)


@dataclass(frozen=True, slots=True)
class ProviderPart:
    """A part of a kind that only one provider has, such as a search on its server.

    Attributes:
        wire: The wire format of the part. It is sent back in this format only.
        data: The part, unchanged.
    """

    wire: str
    data: Mapping[str, Any] = field(hash=False)


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A tool call of the model.

    Attributes:
        id: Pairs the call with its result; unique within a session.
        name: The tool's name as the model wrote it. The tool may not exist.
        arguments: The JSON *text* of the arguments. Stage 3 parses and validates it.
        provider_data: Data to send back to the provider with this call.
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
    """Return the content of a message as parts.

    Raises:
        ValueError: It is neither a list nor a tuple, or contains other values than parts.
    """
    if not isinstance(content, list | tuple):
        raise ValueError(f"Message content is text or parts, not {type(content).__name__}.")
    for part in content:
        if type(part) not in _NAMES:
            names = ", ".join(kind.__name__ for kind in _NAMES)
            raise ValueError(f"A message part is one of {names}, not {type(part).__name__}.")
    return tuple(content)


def part_to_dict(part: Part) -> dict[str, Any]:
    """Return a part as JSON values, without empty optional fields."""
    plain = _fields(part)
    if isinstance(part, JsonPart):
        plain["value"] = part.value  # null is a value, too
    if isinstance(part, TextPart) and part.citations:
        plain["citations"] = [_fields(citation) for citation in part.citations]
    return {"type": _NAMES[type(part)], **plain}


def part_from_dict(fields: Any) -> Part:
    """Create a part from the result of `part_to_dict`, or from OpenAI's format for text and images.

    Raises:
        ValueError: The value is not a part. The text names the invalid field.
    """
    fields = dict(as_mapping(fields, "A message part"))
    name = as_text(fields.pop("type", ""), "type")
    if name == "image_url":
        image = as_mapping(fields.get("image_url"), "image_url")
        return ImagePart(**file_source(required_text(image, "url", "image_url")))
    kind = _TYPES.get(name)
    if kind is None:
        raise ValueError(f"Unknown part type {name!r}. The types are {', '.join(_TYPES)}.")
    if "text" in fields and name in ("text", "thinking"):
        fields["text"] = as_text(fields.get("text"), f"The text of a {name} part")
    if name == "text":
        fields["citations"] = tuple(map(_citation, as_list(fields.get("citations"), "citations")))
    try:
        return kind(**fields)
    except TypeError as error:
        raise ValueError(f"This {name} part does not fit: {error}.") from error


def call_to_dict(call: ToolCall) -> dict[str, Any]:
    """Return a tool call as JSON values."""
    fields: dict[str, Any] = {"id": call.id, "name": call.name, "arguments": call.arguments}
    if call.provider_data is not None:
        fields["provider_data"] = _plain(call.provider_data)
    return fields


def call_from_dict(fields: Any) -> ToolCall:
    """Create a call from the result of `call_to_dict`, or from OpenAI's format.

    Empty arguments mean `{}` in OpenAI's format only. In a saved session they are kept: the reply
    was cut off, and the call must not run.
    """
    fields = as_mapping(fields, "A tool call")
    function = as_mapping(fields.get("function", fields), "function")
    arguments = function.get("arguments")
    if isinstance(arguments, Mapping):
        arguments = json.dumps(arguments, ensure_ascii=False)
    elif arguments is None or (arguments == "" and "function" in fields):
        arguments = "{}"
    for name, owner in (("id", fields), ("name", function)):
        if owner.get(name) is None:  # an empty text is kept: a model wrote it
            raise ValueError(f"A tool call needs a {name!r}.")
    return ToolCall(
        as_text(fields["id"], "A tool call.id"),
        as_text(function["name"], "A tool call.name"),
        as_text(arguments, "arguments"),
        fields.get("provider_data"),
    )


def file_source(url: str) -> dict[str, Any]:
    """Return the fields of a file part: `data` and `media_type` of a `data:` URL, else `url`."""
    head, found, data = url.partition(";base64,")
    if found and head.startswith("data:"):
        return {"data": data, "media_type": head.removeprefix("data:")}
    return {"url": url}


def _fields(value: Part | Citation) -> dict[str, Any]:
    """Return the fields of a value that are not empty, with mappings as dicts."""
    named = ((field.name, getattr(value, field.name)) for field in dataclass_fields(value))
    return {name: _plain(content) for name, content in named if content not in (None, ())}


def _plain(value: Any) -> Any:
    if not isinstance(value, Mapping):
        return value
    return {name: _plain(content) for name, content in value.items()}


def _citation(fields: Any) -> Citation:
    try:
        return Citation(**as_mapping(fields, "A citation"))
    except TypeError as error:
        raise ValueError(f"This citation does not fit: {error}.") from error
