import contextlib
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stage0_gateway.messages import Message, as_content
from stage0_gateway.parts import (
    Citation,
    DocumentPart,
    ImagePart,
    ProviderPart,
    TextPart,
    ThinkingPart,
    ToolCall,
)
from stage0_gateway.request import ChatRequest, ToolSpec
from stage0_gateway.server import anthropic
from stage0_gateway.server.anthropic import decode_request
from stage0_gateway.server.routing import wants_stream
from stage0_gateway.wire import anthropic as wire

PATH = "/v1/messages"
NAMES = (
    "messages role content system tools tool_choice name input id type text tool_use_id source "
    "citations title thinking input_schema output_config format"
)
FIELDS = st.sampled_from(NAMES.split())
WORDS = [
    "user",
    "assistant",
    "text",
    "thinking",
    "image",
    "document",
    "tool_use",
    "tool_result",
    "tool",
    "",
]
LIKELY = st.recursive(
    st.none() | st.integers() | st.sampled_from(WORDS),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(FIELDS, inner, max_size=5),
    max_leaves=30,
)


def own(**fields):
    return {"anthropic": fields}


# ---- requests that this format can represent without loss
# ----------------------------------------------

TEXT = st.text(max_size=30)
NOT_BLANK = st.text(min_size=1, max_size=30).filter(str.strip)  # a blank text is rejected
COUNT = st.integers(0, 10**6)
OBJECT = st.dictionaries(
    NOT_BLANK, st.integers() | TEXT | st.booleans() | st.lists(TEXT, max_size=2), max_size=3
)
NAME = st.from_regex(r"[a-zA-Z_][a-zA-Z0-9_-]{0,10}", fullmatch=True).filter(
    lambda name: name not in ("auto", "none", "required")
)
NOTE = st.fixed_dictionaries(
    {"type": st.just("char_location"), "cited_text": NOT_BLANK, "start_char_index": COUNT},
    optional={"document_title": NOT_BLANK, "url": NOT_BLANK},
)


def cited(note):
    return Citation(
        note.get("url"), note.get("document_title"), note["cited_text"], {"anthropic": note}
    )


ID = st.from_regex(r"[a-zA-Z0-9_-]{1,30}", fullmatch=True)  # other ids are replaced before sending
CITATIONS = st.lists(NOTE.map(cited), max_size=2).map(tuple)
MARK = st.none() | st.just(own(cache_control={"type": "ephemeral"}))
PART = st.one_of(
    st.builds(TextPart, NOT_BLANK, CITATIONS, MARK),
    st.builds(
        ImagePart, NOT_BLANK, st.sampled_from(["image/png", "image/webp"]), provider_data=MARK
    ),
    st.builds(ImagePart, url=NOT_BLANK, provider_data=MARK),
    st.builds(DocumentPart, NOT_BLANK, name=NOT_BLANK, provider_data=MARK),
    st.builds(
        DocumentPart,
        url=NOT_BLANK,
        name=NOT_BLANK,
        provider_data=st.just(own(citations={"enabled": True})),
    ),
    st.builds(
        ProviderPart,
        st.just("anthropic"),
        OBJECT.map(lambda data: {"type": "search_result", "data": data}),
    ),
)
PARTS = st.lists(PART, min_size=1, max_size=4).map(tuple)
SYSTEM = NOT_BLANK | PARTS.filter(
    lambda parts: any(type(part) is not TextPart or part.provider_data for part in parts)
)
RUN_BY_THE_SERVER = st.builds(
    lambda call_id, given: {
        "type": "server_tool_use",
        "id": call_id,
        "name": "web_search",
        "input": given,
    },
    NOT_BLANK,
    OBJECT,
)
ITEM = st.one_of(
    st.builds(TextPart, NOT_BLANK, CITATIONS),
    st.builds(ThinkingPart, TEXT, NOT_BLANK.map(lambda text: own(signature=text))),
    st.builds(
        ProviderPart,
        st.just("anthropic"),
        RUN_BY_THE_SERVER | st.just({"type": "redacted_thinking", "data": "x"}),
    ),
    st.builds(
        ToolCall,
        ID,
        NAME,
        OBJECT.map(lambda given: json.dumps(given, ensure_ascii=False)),
        st.none() | st.just(own(caller={"type": "direct"})),
    ),
)


def message_of(items):
    """Return an assistant message: parts in any order, then the calls. A single plain text is a
    part as well."""
    parts = tuple(item for item in items if not isinstance(item, ToolCall))
    calls = [item for item in items if isinstance(item, ToolCall)]
    return Message.assistant(as_content(parts), calls)


MESSAGE = (
    st.builds(Message.user, NOT_BLANK | PARTS)
    | st.builds(Message.tool, TEXT | PARTS, ID, is_error=st.booleans())
    | st.lists(ITEM, min_size=1, max_size=5).map(message_of)
)
REQUEST = st.builds(
    ChatRequest,
    model=TEXT,
    messages=st.builds(
        lambda system, rest: (*system, *rest),
        st.lists(st.builds(Message.system, SYSTEM), max_size=1),
        st.lists(MESSAGE, max_size=5),
    ),
    tools=st.lists(
        st.builds(ToolSpec, NAME, TEXT, OBJECT.map(lambda schema: {"type": "object", **schema})),
        max_size=2,
    ).map(tuple),
    tool_choice=st.none() | st.sampled_from(["auto", "none", "required"]) | NAME,
    temperature=st.none() | st.floats(0, 1),
    max_tokens=st.integers(1),  # the format requires this field
    response_schema=st.none() | OBJECT,
    stop=st.lists(TEXT, max_size=2).map(tuple),
    provider_options=st.none()
    | st.dictionaries(st.sampled_from(["top_k", "metadata"]), OBJECT | NOT_BLANK, min_size=1)
    | st.just({"output_config": {"effort": "low"}}),
)


# ---- the tests
# ------------------------------------------------------------------------------------------


@given(REQUEST, st.booleans())
def test_an_encoded_request_is_decoded_to_the_same_request(without_provider_data, request, stream):
    body = wire.encode(request, stream=stream)
    assert without_provider_data(
        decode_request(json.loads(json.dumps(body)), PATH)
    ) == without_provider_data(request)
    assert wants_stream(PATH, body) is stream


def test_recorded_requests_are_decoded_and_survive_a_second_round_trip(recorded_requests):
    for path, body in recorded_requests("anthropic"):
        assert anthropic.is_path(path)
        # Unsigned thinking is not sent, and a single text is sent as plain text.
        once = wire.encode(decode_request(wire.encode(decode_request(body, path)), path))
        assert wire.encode(decode_request(once, path)) == once


def test_a_message_with_several_results_becomes_one_message_per_result():
    text = {"type": "text", "text": "sunny", "cache_control": {"type": "ephemeral"}}
    image = {
        "type": "image",
        "source": {"type": "base64", "media_type": "image/png", "data": "QQ=="},
    }
    results = [
        {"type": "tool_result", "tool_use_id": "1", "content": [text, image]},
        {"type": "tool_result", "tool_use_id": "2", "content": "no", "is_error": True},
        {"type": "tool_result", "tool_use_id": "3"},
    ]
    content = [
        *results,
        {"type": "text", "text": "go on"},
        {"type": "container_upload", "file_id": "f"},
    ]
    assert decode_request(
        {"model": "m", "messages": [{"role": "user", "content": content}]}
    ).messages == (
        Message.tool(
            (TextPart("sunny"), ImagePart("QQ==")),
            "1",
        ),
        Message.tool("no", "2", is_error=True),
        Message.tool((), "3"),
        Message.user((TextPart("go on"), ProviderPart("anthropic", content[-1]))),
    )


def test_text_after_a_call_is_moved_before_the_calls():
    blocks = [
        {"type": "tool_use", "id": "1", "name": "f", "input": {}},
        {"type": "text", "text": "Wait."},
    ]
    body = {"model": "m", "messages": [{"role": "assistant", "content": blocks}]}
    assert decode_request(body).messages == (Message.assistant("Wait.", [ToolCall("1", "f")]),)


def test_server_side_tools_are_ignored():
    tools = [
        {"type": "web_search_20250305", "name": "web_search", "max_uses": 2},
        {"name": "f", "description": "", "input_schema": {"type": "object"}, "defer_loading": True},
    ]
    body = {
        "model": "m",
        "max_tokens": 9,
        "messages": [{"role": "user", "content": "hi"}],
        "tools": tools,
    }
    assert decode_request(body).tools == (ToolSpec("f", "", {"type": "object"}),)


@pytest.mark.parametrize(
    "block",
    [
        {"type": "document", "source": {"type": "file", "file_id": "f"}},
        {"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": "a"}},
        {"type": "image", "source": {"type": "url"}},
        {"type": "search_result", "content": []},
    ],
)
def test_a_block_of_an_unknown_type_is_kept_unchanged(block):
    body = {"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": [block]}]}
    assert decode_request(body).messages == (Message.user((ProviderPart("anthropic", block),)),)
    assert wire.encode(decode_request(body)) == body


def test_the_tool_choice_and_the_schema_are_decoded_beside_other_settings():
    choice = {"type": "any", "disable_parallel_tool_use": True}
    output = {"effort": "low", "format": {"type": "json_schema", "schema": {"type": "object"}}}
    body = {"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": "hi"}]}
    body |= {"tool_choice": choice, "output_config": output}
    request = decode_request(body)
    assert (request.tool_choice, request.response_schema) == ("required", {"type": "object"})


def test_a_system_message_between_other_messages_is_decoded():
    messages = [
        {"role": "user", "content": "a"},
        {"role": "system", "content": [{"type": "text", "text": "b"}]},
    ]
    read = (Message.system("s"), Message.user("a"), Message.system((TextPart("b"),)))
    assert decode_request({"model": "m", "system": "s", "messages": messages}).messages == read


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ({}, "'messages' is missing."),
        ({"messages": "hi"}, "'messages' must be a list, not str."),
        ({"messages": [1]}, "A message must be a JSON object, not int."),
        (
            {"messages": [{"role": "tool"}]},
            "A message has the role 'tool'; the roles are system, user and assistant.",
        ),
        (
            {"messages": [{"role": "user", "content": [{"type": "tool_result"}]}]},
            "A tool message needs the tool_call_id of the call it answers.",
        ),
        (
            {"messages": [{"role": "assistant", "content": [{"type": "tool_use", "id": "1"}]}]},
            "A 'tool_use' needs an 'id', a 'name' and an object as its 'input'.",
        ),
        (
            {"messages": [], "tools": [{"name": "f"}]},
            "Each of 'tools' needs a 'name' and an object as its 'input_schema'.",
        ),
        ({"messages": [], "max_tokens": "9"}, "'max_tokens' must be a whole number, not str."),
    ],
)
def test_an_invalid_request_raises_an_error_that_names_the_field(body, expected):
    with pytest.raises(ValueError) as caught:  # noqa: PT011 - the whole text is compared below
        decode_request(body)
    assert str(caught.value) == expected


@given(
    LIKELY
    | st.fixed_dictionaries({"messages": LIKELY}, optional={"tools": LIKELY, "system": LIKELY})
)
def test_any_json_value_is_decoded_or_raises_a_value_error(value):
    with contextlib.suppress(ValueError):  # and nothing but a ValueError
        decode_request(value)
