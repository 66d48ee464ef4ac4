import dataclasses
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stage0_gateway import (
    Citation,
    DocumentPart,
    ImagePart,
    JsonPart,
    ProviderPart,
    TextPart,
    ThinkingPart,
    ToolCall,
)
from stage0_gateway.parts import (
    as_parts,
    call_from_dict,
    call_to_dict,
    file_source,
    part_from_dict,
    part_to_dict,
)
from tests.tables import for_each

texts = st.text(max_size=20)
names = st.text(min_size=1, max_size=10)
values = st.recursive(
    st.none() | st.booleans() | st.integers() | texts, lambda inner: st.lists(inner, max_size=2)
)
objects = st.dictionaries(names, values, max_size=2)
kept = st.none() | st.dictionaries(names, objects, max_size=2)
citations = st.builds(Citation, st.none() | texts, st.none() | texts, st.none() | texts, kept)
parts = st.one_of(
    st.builds(TextPart, texts, st.lists(citations, max_size=2).map(tuple), kept),
    st.builds(JsonPart, values),
    st.builds(ImagePart, st.none() | texts, texts, st.none() | texts, kept),
    st.builds(DocumentPart, st.none() | texts, texts, names, st.none() | texts, kept),
    st.builds(ThinkingPart, texts, kept),
    st.builds(ProviderPart, names, objects),
)


@given(parts)
def test_every_part_survives_a_round_trip_through_json(part):
    assert part_from_dict(json.loads(json.dumps(part_to_dict(part)))) == part


@given(st.builds(ToolCall, names, names, texts.filter(bool), kept))
def test_every_call_survives_a_round_trip_through_json(call):
    assert call_from_dict(json.loads(json.dumps(call_to_dict(call)))) == call


@for_each(
    "part, plain",
    [
        (TextPart("a"), {"type": "text", "text": "a"}),
        (TextPart(""), {"type": "text", "text": ""}),
        (JsonPart(None), {"type": "json", "value": None}),
        (ImagePart(url="u"), {"type": "image", "media_type": "image/png", "url": "u"}),
        (
            ThinkingPart("hm", {"a": {"b": 1}}),
            {"type": "thinking", "text": "hm", "provider_data": {"a": {"b": 1}}},
        ),
        (
            ProviderPart("gemini", {"x": None}),
            {"type": "provider", "wire": "gemini", "data": {"x": None}},
        ),
    ],
)
def test_optional_empty_fields_are_omitted(part, plain):
    assert part_to_dict(part) == plain


@for_each("part", [TextPart("a"), ProviderPart("x", {"a": [1]}), ToolCall("1", "f")])
def test_parts_and_calls_are_frozen_and_hashable_with_any_content(part):
    if not isinstance(part, ProviderPart):
        part = dataclasses.replace(part, provider_data={"openai": {"a": [1]}})
    assert part in {part}
    first = dataclasses.fields(part)[0].name
    with pytest.raises(dataclasses.FrozenInstanceError):
        setattr(part, first, "b")


def test_signatures_are_not_in_the_repr_but_are_compared():
    signed = ThinkingPart("hm", {"anthropic": {"signature": "s"}})
    assert (repr(signed), signed == ThinkingPart("hm")) == ("ThinkingPart(text='hm')", False)


@for_each(
    "plain, part",
    [
        (
            {"type": "image_url", "image_url": {"url": "https://x/a.png"}},
            ImagePart(url="https://x/a.png"),
        ),
        (
            {"type": "image_url", "image_url": {"url": "data:image/jpeg;base64,AAAA"}},
            ImagePart("AAAA", "image/jpeg"),
        ),
        ({"type": "text", "text": "a", "citations": None}, TextPart("a")),
    ],
)
def test_openais_format_of_parts_is_accepted(plain, part):
    assert part_from_dict(plain) == part


@for_each(
    "url, found",
    [
        ("data:image/png;base64,AAAA", {"data": "AAAA", "media_type": "image/png"}),
        ("data:;base64,", {"data": "", "media_type": ""}),
        ("data:text/plain,hi", {"url": "data:text/plain,hi"}),
        ("https://x/?data:a;base64,A", {"url": "https://x/?data:a;base64,A"}),
    ],
)
def test_a_data_url_is_split_into_its_data_and_its_type(url, found):
    assert file_source(url) == found


@for_each(
    "plain, expected",
    [
        (5, "A message part must be a JSON object, not int."),
        (
            {},
            "Unknown part type ''. The types are text, json, image, document, thinking, provider.",
        ),
        ({"type": ["text"]}, "type must be text, not list."),
        ({"type": "image_url", "image_url": "u"}, "image_url must be a JSON object, not str."),
        ({"type": "image_url", "image_url": {}}, "image_url needs a 'url'."),
        ({"type": "text", "text": "a", "citations": 5}, "citations must be a list, not int."),
    ],
)
def test_an_invalid_part_raises_an_error_that_names_the_problem(plain, expected):
    with pytest.raises(ValueError) as caught:  # noqa: PT011 (the whole text is compared)
        part_from_dict(plain)
    assert str(caught.value) == expected


@for_each(
    "plain, expected",
    [
        ({"type": "text"}, "This text part does not fit: .*'text'"),
        ({"type": "thinking", "text": "a", "mood": 5}, "This thinking part does not fit: .*'mood'"),
        (
            {"type": "text", "text": "a", "citations": [{"page": 5}]},
            "This citation does not fit: .*'page'",
        ),
    ],
)
def test_a_missing_or_unknown_field_is_named(plain, expected):
    with pytest.raises(ValueError, match=expected):
        part_from_dict(plain)


@for_each(
    "plain, call",
    [
        (
            {"id": "1", "type": "function", "function": {"name": "f", "arguments": "{}"}},
            ToolCall("1", "f"),
        ),
        ({"id": "1", "function": {"name": "f"}}, ToolCall("1", "f")),
        ({"id": "", "name": ""}, ToolCall("", "")),  # a model may write such a call
        ({"id": "1", "name": "f", "arguments": None}, ToolCall("1", "f")),
        ({"id": "1", "function": {"name": "f", "arguments": ""}}, ToolCall("1", "f")),
        ({"id": "1", "name": "f", "arguments": ""}, ToolCall("1", "f", "")),
        ({"id": "1", "name": "f", "arguments": '{"a": '}, ToolCall("1", "f", '{"a": ')),
        ({"id": "1", "name": "f", "arguments": {"a": "ü"}}, ToolCall("1", "f", '{"a": "ü"}')),
    ],
)
def test_a_call_is_accepted_in_our_format_and_in_openais(plain, call):
    assert call_from_dict(plain) == call


@for_each(
    "plain, expected",
    [
        ({"name": "f"}, "A tool call needs a 'id'."),
        ({"id": "1"}, "A tool call needs a 'name'."),
        ({"id": "1", "name": None}, "A tool call needs a 'name'."),
        ({"id": "1", "function": 5}, "function must be a JSON object, not int."),
        ({"id": "1", "name": "f", "arguments": 5}, "arguments must be text, not int."),
    ],
)
def test_an_invalid_call_raises_an_error_that_names_the_problem(plain, expected):
    with pytest.raises(ValueError) as caught:  # noqa: PT011 (the whole text is compared)
        call_from_dict(plain)
    assert str(caught.value) == expected


def test_message_parts_are_a_tuple_of_parts_only():
    assert as_parts([TextPart("a"), ProviderPart("x", {})]) == (
        TextPart("a"),
        ProviderPart("x", {}),
    )
    with pytest.raises(ValueError, match=r"^Message content is text or parts, not dict\.$"):
        as_parts({})
    with pytest.raises(
        ValueError, match=r"^A message part is one of TextPart, .*, ProviderPart, not ToolCall\.$"
    ):
        as_parts([ToolCall("1", "f")])
