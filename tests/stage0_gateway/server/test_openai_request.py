import contextlib
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stage0_gateway.messages import Message, as_content
from stage0_gateway.parts import (
    DocumentPart,
    ImagePart,
    ProviderPart,
    TextPart,
    ThinkingPart,
    ToolCall,
)
from stage0_gateway.request import ChatRequest, ToolSpec
from stage0_gateway.server import openai
from stage0_gateway.server.openai import decode_request
from stage0_gateway.server.routing import wants_stream
from stage0_gateway.wire import openai as wire

PATH = "/v1/chat/completions"
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=8,
)
NAMES = (
    "messages role content tools tool_calls function name arguments id type stop tool_choice "
    "response_format json_schema schema image_url url text file file_data thinking "
    "reasoning reasoning_content"
)
FIELDS = st.sampled_from(NAMES.split())
LIKELY = st.recursive(
    st.none()
    | st.integers()
    | st.sampled_from(["user", "tool", "text", "json_schema", "function", ""]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(FIELDS, inner, max_size=5),
    max_leaves=30,
)


def own(**fields):
    return {"openai": fields}


# ---- requests that this format can represent without loss
# ----------------------------------------------

TEXT = st.text(max_size=30)
NOT_BLANK = st.text(min_size=1, max_size=30)
OBJECT = st.dictionaries(
    NOT_BLANK, st.integers() | TEXT | st.booleans() | st.lists(TEXT, max_size=2), max_size=3
)
NAME = st.from_regex(r"[a-zA-Z_][a-zA-Z0-9_-]{0,10}", fullmatch=True).filter(
    lambda name: name not in ("auto", "none", "required", "any")
)
MARKED = st.builds(TextPart, TEXT, provider_data=st.just(own(cache_control={"type": "ephemeral"})))
URL = NOT_BLANK.map("https://example.com/{}".format)
DATA = st.binary(max_size=6).map(bytes.hex)
IMAGE = st.builds(
    ImagePart,
    DATA,
    st.sampled_from(["image/png", "image/webp"]),
    provider_data=st.none() | st.just(own(detail=1)),
) | st.builds(
    ImagePart, url=URL, provider_data=st.none() | st.just(own(image_url={"detail": "high"}))
)
DOCUMENT = st.builds(DocumentPart, DATA, name=NOT_BLANK) | st.builds(
    DocumentPart, url=URL, name=NOT_BLANK
)
OTHER = st.builds(
    ProviderPart,
    st.just("openai"),
    OBJECT.map(lambda data: {"type": "input_audio", "input_audio": data}),
)
# Plain texts alone are merged into one text, so another part is always included.
PARTS = st.tuples(
    st.lists(MARKED | IMAGE | DOCUMENT | OTHER, min_size=1, max_size=3),
    st.lists(st.builds(TextPart, TEXT), max_size=2),
).flatmap(lambda lists: st.permutations([*lists[0], *lists[1]]).map(tuple))
MARKED_TEXTS = st.lists(MARKED, min_size=1, max_size=3).map(tuple)
CALLS = st.lists(
    st.builds(
        ToolCall,
        NOT_BLANK,
        NAME,
        NOT_BLANK,
        st.none() | st.builds(lambda data: own(extra_content={"google": data}), OBJECT),
    ),
    max_size=3,
)


@st.composite
def assistants(draw):
    """Generate assistant messages: Mistral sends thinking inside the content, other servers beside
    it and only with tool calls."""
    calls = draw(CALLS)
    content = draw(PARTS | NOT_BLANK.map(lambda text: (TextPart(text),)) | st.just(()))
    fields = ["thinking", *(["reasoning", "reasoning_content"] if calls else [])]
    if draw(st.booleans()):
        content = (
            ThinkingPart(draw(NOT_BLANK), own(field=draw(st.sampled_from(fields)))),
            *content,
        )
    return Message.assistant(as_content(content), calls)


MESSAGE = (
    st.builds(Message.system, TEXT | MARKED_TEXTS)
    | st.builds(Message.user, TEXT | PARTS)
    | st.builds(Message.tool, TEXT | MARKED_TEXTS, NOT_BLANK)
    | assistants()
)
REQUEST = st.builds(
    ChatRequest,
    model=TEXT,
    messages=st.lists(MESSAGE, min_size=1, max_size=5).map(tuple),
    tools=st.lists(st.builds(ToolSpec, NAME, TEXT, OBJECT), max_size=2).map(tuple),
    tool_choice=st.none() | st.sampled_from(["auto", "none", "required"]) | NAME,
    temperature=st.none() | st.floats(0, 2) | st.integers(0, 2),
    max_tokens=st.none() | st.integers(1),
    response_schema=st.none() | OBJECT,
    stop=st.lists(TEXT, max_size=2).map(tuple),
    provider_options=st.none()
    | st.dictionaries(st.sampled_from(["seed", "user", "n"]), OBJECT | NOT_BLANK, min_size=1),
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
    for path, body in recorded_requests("openai"):
        assert openai.is_path(path)
        once = wire.encode(decode_request(body, path))
        assert wire.encode(decode_request(once, path)) == once


def test_server_side_tools_are_ignored():
    function = {"name": "f", "description": "", "parameters": {"type": "object"}, "strict": True}
    tools = [{"type": "web_search"}, {"type": "function", "function": function}]
    body = {"model": "m", "messages": [{"role": "user", "content": "hi"}], "tools": tools}
    assert decode_request(body).tools == (ToolSpec("f", "", {"type": "object"}),)


@pytest.mark.parametrize(
    ("part", "read"),
    [
        (
            {"type": "text", "text": "a", "cache_control": {}},
            TextPart("a"),
        ),
        (
            {"type": "image_url", "image_url": "http://x/y"},
            ProviderPart("openai", {"type": "image_url", "image_url": "http://x/y"}),
        ),
        (
            {
                "type": "image_url",
                "image_url": {"url": "data:image/png;base64,QQ==", "detail": "low"},
            },
            ImagePart("QQ=="),
        ),
        (
            {"type": "file", "file": {"filename": "a", "file_data": "data:text/plain;base64,QQ=="}},
            DocumentPart("QQ==", "text/plain", "a"),
        ),
        (
            {"type": "file", "file": {"file_id": "f1"}},
            ProviderPart("openai", {"type": "file", "file": {"file_id": "f1"}}),
        ),
        (
            {"type": "input_audio", "input_audio": {}},
            ProviderPart("openai", {"type": "input_audio", "input_audio": {}}),
        ),
    ],
)
def test_a_part_is_decoded_and_a_part_of_an_unknown_type_is_kept_unchanged(part, read):
    body = {"model": "m", "messages": [{"role": "user", "content": [part, {"type": "x"}]}]}
    request = decode_request(body)
    assert request.messages[0].content == (read, ProviderPart("openai", {"type": "x"}))


def test_developer_messages_null_content_and_a_single_stop_text_are_decoded():
    body = {
        "model": "m",
        "messages": [
            {"role": "developer", "content": [{"type": "text", "text": "a"}]},
            {"role": "assistant"},
        ],
        "max_completion_tokens": 9,
        "stop": "END",
    }
    messages = (Message.system("a"), Message.assistant(""))
    assert decode_request(body) == ChatRequest("m", messages, max_tokens=9, stop=("END",))


@pytest.mark.parametrize(
    ("choice", "read"),
    [
        ("auto", "auto"),
        ("none", "none"),
        ("required", "required"),
        ("any", None),
        ({"type": "function", "function": {"name": "f"}}, "f"),
        ({"type": "allowed_tools", "allowed_tools": {}}, None),
    ],
)
def test_a_tool_choice_is_decoded(choice, read):
    body = {"model": "m", "messages": [{"role": "user", "content": "hi"}], "tool_choice": choice}
    assert decode_request(body).tool_choice == read


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ({}, "'messages' must hold at least one message."),
        ({"messages": "hi"}, "'messages' must be a list, not str."),
        ({"messages": [1]}, "A message must be a JSON object, not int."),
        (
            {"messages": [{"role": "king"}]},
            "A message has the role 'king'; the roles are system, user, assistant and tool.",
        ),
        (
            {"messages": [{"role": "tool"}]},
            "A tool message needs the tool_call_id of the call it answers.",
        ),
        (
            {"messages": [{"role": "assistant", "tool_calls": [{"id": "1"}]}]},
            "Each of 'tool_calls' needs an 'id' and a 'function' with 'name' and 'arguments'.",
        ),
        ({"messages": [{"role": "user"}], "stop": [1]}, "'stop' must be text, not int."),
        (
            {"messages": [{"role": "user"}], "max_tokens": True},
            "'max_tokens' must be a whole number, not bool.",
        ),
        (
            {"messages": [{"role": "user"}], "tools": [{"function": {}}]},
            "Each of 'tools' needs a 'function' with a 'name'.",
        ),
    ],
)
def test_an_invalid_request_raises_an_error_that_names_the_field(body, expected):
    with pytest.raises(ValueError) as caught:  # noqa: PT011 - the whole text is compared below
        decode_request(body)
    assert str(caught.value) == expected


@given(
    JSON
    | LIKELY
    | st.fixed_dictionaries({"messages": LIKELY}, optional={"tools": LIKELY, "stop": LIKELY})
)
def test_any_json_value_is_decoded_or_raises_a_value_error(value):
    with contextlib.suppress(ValueError):  # and nothing but a ValueError
        decode_request(value)
